"""A module with its weights, whose initial values are never drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import WeightsMismatch

if TYPE_CHECKING:
    from flax import nnx


def filled(construct: Callable[[], nnx.Module], values: Mapping[str, np.ndarray], name: str) -> Any:
    """A module of which all arrays that have values are these; the others, such as random streams, are drawn.

    Args:
        construct: makes the module; it is traced.
        values: dotted paths → arrays. What the module does not hold is left.
        name: of the source, for a message.

    Raises:
        WeightsMismatch: an array has another shape than what is constructed.
    """
    import jax
    from flax import nnx

    graph, state = nnx.split(nnx.eval_shape(construct))
    given: dict[Any, Any] = {}
    for path, variable in nnx.to_flat_state(state):
        array = None if isinstance(variable, nnx.RngState) else values.get(".".join(map(str, path)))
        if array is not None:
            given[path] = _taken(array, variable, ".".join(map(str, path)), name)

    @jax.jit
    def others() -> dict[Any, Any]:
        drawn = nnx.to_flat_state(nnx.state(construct()))
        return {path: variable.get_value() for path, variable in drawn if path not in given}

    arrays = {**given, **(others() if len(given) < len(nnx.to_flat_state(state)) else {})}
    made = [(path, variable.replace(arrays[path])) for path, variable in nnx.to_flat_state(state)]
    return nnx.merge(graph, nnx.from_flat_state(made))


def check_filled(construct: Callable[[], nnx.Module], values: Mapping[str, np.ndarray], name: str) -> None:
    """See that a module can be constructed, and that its arrays have the shapes of their values; none is made.

    Raises:
        WeightsMismatch: one has another.
    """
    from flax import nnx

    for path, variable in nnx.to_flat_state(nnx.state(nnx.eval_shape(construct), nnx.Not(nnx.RngState))):
        array = values.get(".".join(map(str, path)))
        if array is not None:
            _check_shape(array, variable, ".".join(map(str, path)), name)


def _taken(array: np.ndarray, variable: Any, path: str, name: str) -> Any:
    import jax.numpy as jnp

    _check_shape(array, variable, path, name)
    # Copies: `jnp.asarray` might let the module share memory with `values`.
    return jnp.array(array, dtype=_dtype(variable, array))


def _check_shape(array: np.ndarray, variable: Any, path: str, name: str) -> None:
    if tuple(variable.shape) != array.shape:
        raise WeightsMismatch(
            f"the source of {name} constructs {path} with the shape {tuple(variable.shape)}, and its weights have "
            f"{array.shape}"
        )


def _dtype(variable: Any, array: np.ndarray) -> Any:
    """The dtype that the module has there; a number of another kind keeps its own."""
    import jax.numpy as jnp

    same_kind = jnp.issubdtype(variable.dtype, jnp.floating) == jnp.issubdtype(array.dtype, jnp.floating)
    return variable.dtype if same_kind and not jnp.issubdtype(array.dtype, jnp.complexfloating) else array.dtype
