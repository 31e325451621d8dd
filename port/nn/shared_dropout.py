"""Dropout masks drawn from a step's key, a draw's number and the batch's rows, as in torch under `port.shared_dropout`.

A replica, or a microbatch, holds some rows of a whole batch. If each drew its own masks, they would drop other elements
than one device with the whole batch, and the runs could not be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DropoutMasks:
    """The source of a step's dropout masks. A pytree, so that it passes through jit, pmap, shard_map and scan.

    Attributes:
        key: the step's key, ``fold_in(key(seed), step)``, as from ``port.dropout_key(seed, step)``.
        rows: (n,) integers, the positions of this batch's samples in the whole batch. Not checked, as they may be
            traced. None if this batch is the whole.
        batch_size: number of samples in the whole batch, static; required with ``rows``, and only then.
    """

    key: jax.Array
    rows: jax.Array | None = None
    batch_size: int | None = field(default=None, metadata={"static": True})


class SharedDropout(nnx.Dropout):
    """flax.nnx.Dropout whose call takes the step's masks and the number of the draw.

    Its twin is a torch.nn.Dropout within ``port.shared_dropout(model, key, rows=rows, batch_size=batch_size)``.
    """

    def __call__(self, x: jax.Array, masks: DropoutMasks, draw: int) -> jax.Array:  # type: ignore[override]
        """Drop elements of ``x``, (n, …), and scale the others by 1 / (1 − rate); the result has the same shape.

        Without rows it is ``nnx.Dropout(rate)(x, rngs=fold_in(masks.key, draw))``; with them, the mask is drawn for
        the whole batch and its rows are taken. ``draw`` counts the step's draws from 0, in the order of the calls.

        Raises:
            UsageError: only one of rows and batch_size is set; ``x`` does not have one sample for each row.
        """
        key = jax.random.fold_in(masks.key, draw)
        is_whole = masks.rows is None and masks.batch_size is None
        if is_whole or self.deterministic is None or self.deterministic or self.rate in (0, 1):
            return super().__call__(x, rngs=key)
        return rows_dropped(self, x, key, masks)


def rows_dropped(dropout: nnx.Dropout, x: jax.Array, key: jax.Array, masks: DropoutMasks) -> jax.Array:
    """Apply dropout to some rows of a batch, with the mask that ``key`` draws for the whole batch.

    Raises:
        UsageError: as `SharedDropout`.
    """
    if masks.rows is None or masks.batch_size is None:
        passed, missing = ("rows", "batch_size") if masks.batch_size is None else ("batch_size", "rows")
        raise UsageError(f"expected rows and batch_size together, but got {passed} alone; give {missing} too")
    if masks.rows.ndim != 1 or x.shape[:1] != masks.rows.shape:
        raise UsageError(
            f"expected an input with one sample a row, but got shape {x.shape} and rows of shape "
            f"{masks.rows.shape}; give the rows of this batch's samples, in their order"
        )
    shape = [masks.batch_size, *x.shape[1:]]
    for dimension in dropout.broadcast_dims:
        shape[dimension] = 1
    keep = 1.0 - dropout.rate
    mask = jax.random.bernoulli(key, keep, shape)
    mask = jnp.broadcast_to(mask, (masks.batch_size, *shape[1:]))
    return jnp.where(mask.at[masks.rows].get(out_sharding=jax.typeof(x).sharding), x / keep, 0)
