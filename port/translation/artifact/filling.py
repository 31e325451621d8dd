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


def check_filled(construct: Callable[[], nnx.Module], shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """See that a module can be constructed, and that it has each weight, in its shape, and no other parameters.

    No array is made.

    Args:
        construct: makes the module; it is traced.
        shapes: dotted paths → the weights' shapes.
        name: of the source, for a message.

    Raises:
        WeightsMismatch: it has not.
    """
    from flax import nnx

    variables = nnx.to_flat_state(nnx.state(nnx.eval_shape(construct)))
    found = {".".join(map(str, path)): variable for path, variable in variables}
    if lost := sorted(shapes.keys() - found.keys()):
        raise WeightsMismatch(f"the source of {name} does not construct {lost[0]}, which is among its weights")
    for path, variable in found.items():
        if path in shapes:
            _check_shape(path, variable, shapes[path], name)
        elif isinstance(variable, nnx.Param):
            raise WeightsMismatch(f"the source of {name} constructs {path}, which is not among its weights")


def _checked(variables: Mapping[Any, Any], values: Mapping[str, np.ndarray], name: str) -> dict[Any, np.ndarray]:
    """The values of those variables that have one, each of the variable's shape."""
    from flax import nnx

    found = {}
    for path, variable in variables.items():
        dotted = ".".join(map(str, path))
        if dotted not in values or isinstance(variable, nnx.RngState):
            continue
        found[path] = values[dotted]
        _check_shape(dotted, variable, values[dotted].shape, name)
    return found


def _check_shape(path: str, variable: Any, shape: tuple[int, ...], name: str) -> None:
    if tuple(variable.shape) != shape:
        raise WeightsMismatch(
            f"the source of {name} constructs {path} with the shape {tuple(variable.shape)}, and its weights "
            f"have {shape}"
        )


def _dtype(variable: Any, array: np.ndarray) -> Any:
    """The dtype that the module has there; a number of another kind keeps its own."""
    import jax.numpy as jnp

    same_kind = jnp.issubdtype(variable.dtype, jnp.floating) == jnp.issubdtype(array.dtype, jnp.floating)
    return variable.dtype if same_kind and not jnp.issubdtype(array.dtype, jnp.complexfloating) else array.dtype
