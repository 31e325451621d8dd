"""Dropout with masks from a step's key, a layer's number and the batch's rows: those of torch's `port.shared_dropout`.

A replica, or a microbatch, has some rows of a whole batch. Were each to draw masks of its own, they would drop other
elements than one device with the whole batch does, and the runs could not be compared.
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
    """Where a step's dropout masks come from. A pytree, so that it passes through jit, pmap, shard_map and scan.

    Attributes:
        key: the step's key, ``fold_in(key(seed), step)``; that of ``port.dropout_key(seed, step)``.
        rows: (n,), integers: the positions that this batch's samples have in the whole batch. They are not checked,
            as they may be traced. None: this batch is the whole.
        batch_size: samples in the whole batch, static; given with ``rows``, and only then.
    """

    key: jax.Array
    rows: jax.Array | None = None
    batch_size: int | None = field(default=None, metadata={"static": True})


class SharedDropout(nnx.Dropout):
    """flax.nnx.Dropout, built in the same way, whose call takes the step's masks and the layer's number.

    Its twin is a torch.nn.Dropout within ``port.shared_dropout(model, key, rows=rows, batch_size=batch_size)``.
    """

    def __call__(self, x: jax.Array, masks: DropoutMasks, layer: int) -> jax.Array:  # type: ignore[override]
        """Drop elements of ``x``, (n, …), and scale the others by 1 / (1 − rate); the result has the same shape.

        Without rows it is ``nnx.Dropout(rate)(x, rngs=fold_in(masks.key, layer))``; with them, the mask is drawn for
        the whole batch and its rows are taken. ``layer`` counts the model's dropouts from 0. One that is called again
        within a step, for the n-th time (n = 1, 2, …), gets masks with the key ``fold_in(key, layer)``, and n as layer.

        Raises:
            UsageError: of rows and batch size only one is given; ``x`` does not have one sample a row.
        """
        key = jax.random.fold_in(masks.key, layer)
        is_whole = masks.rows is None and masks.batch_size is None
        if is_whole or self.deterministic is None or self.deterministic or self.rate in (0, 1):
            return super().__call__(x, rngs=key)
        keep = 1.0 - self.rate
        return jnp.where(self._rows_mask(x, key, keep, masks), x / keep, 0)

    def _rows_mask(self, x: jax.Array, key: jax.Array, keep: float, masks: DropoutMasks) -> jax.Array:
        """True where ``x`` is kept, of a shape that broadcasts to it."""
        if masks.rows is None or masks.batch_size is None:
            given, missing = ("rows", "batch_size") if masks.batch_size is None else ("batch_size", "rows")
            raise UsageError(f"expected rows and batch_size together, but got {given} alone; give {missing} too")
        if masks.rows.ndim != 1 or x.shape[:1] != masks.rows.shape:
            raise UsageError(
                f"expected an input with one sample a row, but got shape {x.shape} and rows of shape "
                f"{masks.rows.shape}; give the rows of this batch's samples, in their order"
            )
        shape = [masks.batch_size, *x.shape[1:]]
        for dimension in self.broadcast_dims:
            shape[dimension] = 1
        mask = jax.random.bernoulli(key, keep, shape)
        mask = jnp.broadcast_to(mask, (masks.batch_size, *shape[1:]))
        return mask.at[masks.rows].get(out_sharding=jax.typeof(x).sharding)
