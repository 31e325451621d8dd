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
    import jax.numpy as jnp
    from flax import nnx

    graph, state = nnx.split(nnx.eval_shape(construct))
    variables = dict(nnx.to_flat_state(state))
    # Copies: `jnp.asarray` might let the module share memory with `values`.
    given = {
        path: jnp.array(array, dtype=_dtype(variables[path], array))
        for path, array in _checked(variables, values, name).items()
    }

    @jax.jit
    def others() -> dict[Any, Any]:
        drawn = nnx.to_flat_state(nnx.state(construct()))
        return {path: variable.get_value() for path, variable in drawn if path not in given}

    arrays = given if given.keys() == variables.keys() else {**given, **others()}
    made = [(path, variable.replace(arrays[path])) for path, variable in variables.items()]
    return nnx.merge(graph, nnx.from_flat_state(made))


def check_filled(construct: Callable[[], nnx.Module], values: Mapping[str, np.ndarray], name: str) -> None:
    """See that a module can be constructed, and that its arrays have the shapes of their values; none is made.

    Raises:
        WeightsMismatch: one has another.
    """
    from flax import nnx

    _checked(dict(nnx.to_flat_state(nnx.state(nnx.eval_shape(construct)))), values, name)


def _checked(variables: Mapping[Any, Any], values: Mapping[str, np.ndarray], name: str) -> dict[Any, np.ndarray]:
    """The values of those variables that have one, each of the variable's shape."""
    from flax import nnx

    found = {}
    for path, variable in variables.items():
        dotted = ".".join(map(str, path))
        if dotted not in values or isinstance(variable, nnx.RngState):
            continue
        found[path] = values[dotted]
        if tuple(variable.shape) != values[dotted].shape:
            raise WeightsMismatch(
                f"the source of {name} constructs {dotted} with the shape {tuple(variable.shape)}, and its weights "
                f"have {values[dotted].shape}"
            )
    return found


def _dtype(variable: Any, array: np.ndarray) -> Any:
    """The dtype that the module has there; a number of another kind keeps its own."""
    import jax.numpy as jnp

    same_kind = jnp.issubdtype(variable.dtype, jnp.floating) == jnp.issubdtype(array.dtype, jnp.floating)
    return variable.dtype if same_kind and not jnp.issubdtype(array.dtype, jnp.complexfloating) else array.dtype
