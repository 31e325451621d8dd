"""The state of torch.optim.LBFGS as arrays of fixed sizes, and conversions from and to torch's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError, WeightsMismatch


class TorchLbfgsState(NamedTuple):
    """torch.optim.LBFGS's state, under its names; n is the number of elements of all parameters, h the history's size.

    A vector holds the flattened parameters one after another, in `jax.flatten_util.ravel_pytree`'s order; torch's
    vectors are in the order of the optimizer's parameters, each in torch's layout.

    Attributes:
        func_evals: int32 scalar, evaluations so far.
        n_iter: int32 scalar, inner iterations so far.
        d: (n,), the last direction.
        t: scalar, the last step length.
        old_dirs: (h, n), the last changes of the gradient, the oldest first; zero from ``history_count`` on.
        old_stps: (h, n), the steps that belong to them.
        ro: (h,), 1 / (change · step) of each.
        H_diag: scalar, the scale of the first approximation of the inverse Hessian.
        prev_flat_grad: (n,), the gradient before the last inner step.
        prev_loss: scalar, the loss before the last inner step.
        history_count: int32 scalar, the length of torch's three lists.
    """

    func_evals: jax.Array
    n_iter: jax.Array
    d: jax.Array
    t: jax.Array
    old_dirs: jax.Array
    old_stps: jax.Array
    ro: jax.Array
    H_diag: jax.Array
    prev_flat_grad: jax.Array
    prev_loss: jax.Array
    history_count: jax.Array


def empty_lbfgs_state(size: int, history_size: int, dtype: jax.typing.DTypeLike) -> TorchLbfgsState:
    """The state before the first step.

    Args:
        size: n.
        history_size: h.
        dtype: the vectors' dtype; the step length and the loss, Python floats in torch, are at least float32.
    """
    scalar = jnp.promote_types(dtype, jnp.float32)
    return TorchLbfgsState(
        func_evals=jnp.zeros([], jnp.int32),
        n_iter=jnp.zeros([], jnp.int32),
        d=jnp.zeros(size, dtype),
        t=jnp.zeros([], scalar),
        old_dirs=jnp.zeros((history_size, size), dtype),
        old_stps=jnp.zeros((history_size, size), dtype),
        ro=jnp.zeros(history_size, dtype),
        H_diag=jnp.ones([], dtype),
        prev_flat_grad=jnp.zeros(size, dtype),
        prev_loss=jnp.zeros([], scalar),
        history_count=jnp.zeros([], jnp.int32),
    )


def lbfgs_state_from_torch(
    entry: Mapping[str, Any], *, size: int, history_size: int, dtype: jax.typing.DTypeLike
) -> TorchLbfgsState:
    """Convert torch's state: ``optimizer.state_dict()["state"][0]``, its tensors as numpy arrays.

    Args:
        entry: torch's entry, its vectors already in the order and the layout of the JAX parameters.
        size: n, the number of elements of all parameters.
        history_size: the ``history_size`` of the transformation that continues, which may be longer than torch's.
        dtype: the vectors' dtype.

    Raises:
        UsageError: the entry has more pairs than ``history_size``.
        WeightsMismatch: a vector whose length is not ``size``.
    """
    state = empty_lbfgs_state(size, history_size, dtype)
    state = state._replace(func_evals=jnp.asarray(entry["func_evals"], jnp.int32))
    if not entry["n_iter"]:
        # torch has seen only zero gradients, if any, and has stored nothing else.
        return state
    count = len(entry["old_dirs"])
    if count > history_size:
        raise UsageError(f"torch's LBFGS remembers {count} steps; with history_size={history_size} some would be lost")
    for name in ("d", "prev_flat_grad", "old_dirs", "old_stps"):
        vectors = entry[name] if name.startswith("old_") else [entry[name]]
        for vector in vectors:
            if np.shape(vector) != (size,):
                raise WeightsMismatch(
                    f"LBFGS: {name} should hold vectors of {size} numbers, all parameters flat one after another; "
                    f"the shape of one is {np.shape(vector)}"
                )

    def kept(vectors: Any, zeros: jax.Array) -> jax.Array:
        return zeros.at[:count].set(np.asarray(vectors, zeros.dtype)) if count else zeros

    return TorchLbfgsState(
        func_evals=state.func_evals,
        n_iter=jnp.asarray(entry["n_iter"], jnp.int32),
        d=jnp.asarray(entry["d"], dtype),
        t=jnp.asarray(entry["t"], state.t.dtype),
        old_dirs=kept(entry["old_dirs"], state.old_dirs),
        old_stps=kept(entry["old_stps"], state.old_stps),
        ro=kept(entry["ro"], state.ro),
        H_diag=jnp.asarray(entry["H_diag"], dtype),
        prev_flat_grad=jnp.asarray(entry["prev_flat_grad"], dtype),
        prev_loss=jnp.asarray(entry["prev_loss"], state.prev_loss.dtype),
        history_count=jnp.asarray(count, jnp.int32),
    )


def lbfgs_state_to_torch(state: TorchLbfgsState) -> dict[str, Any]:
    """Convert the state to torch's entry: Python numbers, and numpy arrays where torch has tensors.

    Before the first inner step it is only ``func_evals`` and ``n_iter``, as in torch. torch creates ``al``, a scratch
    list, itself.
    """
    entry: dict[str, Any] = {"func_evals": int(state.func_evals), "n_iter": int(state.n_iter)}
    if not entry["n_iter"]:
        return entry
    count = int(state.history_count)
    return entry | {
        "d": np.asarray(state.d),
        "t": float(state.t),
        "old_dirs": list(np.asarray(state.old_dirs)[:count]),
        "old_stps": list(np.asarray(state.old_stps)[:count]),
        "ro": [np.asarray(value) for value in np.asarray(state.ro)[:count]],
        "H_diag": np.asarray(state.H_diag),
        "prev_flat_grad": np.asarray(state.prev_flat_grad),
        "prev_loss": float(state.prev_loss),
    }
