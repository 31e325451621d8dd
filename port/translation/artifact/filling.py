"""Build a module from its weights, without drawing initial values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import WeightsMismatch

if TYPE_CHECKING:
    from flax import nnx


def filled(construct: Callable[[], nnx.Module], values: Mapping[str, np.ndarray], name: str) -> Any:
    """Construct a module with the arrays in ``values``; other variables, such as random streams, are drawn.

    Args:
        construct: constructs the module; it is traced.
        values: dotted path → array; paths that the module does not have are ignored.
        name: the source's name, for error messages.

    Raises:
        WeightsMismatch: an array's shape differs from the constructed variable's.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    graph, state = nnx.split(nnx.eval_shape(construct))
    variables = dict(nnx.to_flat_state(state))
    # Copies: `jnp.asarray` might let the module share memory with `values`.
    known = {
        path: jnp.array(array, dtype=_dtype(variables[path], array))
        for path, array in _checked(variables, values, name).items()
    }

    @jax.jit
    def others() -> dict[Any, Any]:
        drawn = nnx.to_flat_state(nnx.state(construct()))
        return {path: variable.get_value() for path, variable in drawn if path not in known}

    arrays = known if known.keys() == variables.keys() else {**known, **others()}
    made = [(path, variable.replace(arrays[path])) for path, variable in variables.items()]
    return nnx.merge(graph, nnx.from_flat_state(made))


def check_filled(construct: Callable[[], nnx.Module], shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """Check that a module can be constructed, with each weight in its shape, and no other parameters.

    No array is allocated.

    Args:
        construct: constructs the module; it is traced.
        shapes: dotted path → the weight's shape.
        name: the source's name, for error messages.

    Raises:
        WeightsMismatch: a weight is missing or has another shape, or there is an additional parameter.
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
    """Return the values of the variables that have one, after checking their shapes."""
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
    """Return the variable's dtype; the array's if the two are of different kinds."""
    import jax.numpy as jnp

    same_kind = jnp.issubdtype(variable.dtype, jnp.floating) == jnp.issubdtype(array.dtype, jnp.floating)
    return variable.dtype if same_kind and not jnp.issubdtype(array.dtype, jnp.complexfloating) else array.dtype
