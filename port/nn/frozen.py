"""Parameters that are not trained: ``requires_grad=False`` in torch."""

from __future__ import annotations

from typing import Any, TypeVar

from flax import nnx

Module = TypeVar("Module", bound=nnx.Module)


class Frozen(nnx.Variable[nnx.variablelib.A]):
    """A parameter with ``requires_grad=False``. Not an `nnx.Param`, so neither differentiated nor stepped."""


def frozen(module: Module, *names: str) -> Module:
    """Replace a module's parameters, or those named, by `Frozen`: ``frozen(nnx.Linear(2, 3), "kernel")``.

    A name is the dotted path of a parameter, or of a module, which stands for all its parameters. Parameters that are
    shared within the module stay shared. To train them again, build the module without `frozen`.

    Args:
        module: changed in place.
        names: what to freeze; everything if empty.

    Raises:
        ValueError: the module has no parameter under a name.
    """
    made: dict[int, nnx.Variable[Any]] = {}
    unused = set(names)
    for path, inner in list(nnx.iter_modules(module)):
        for name, value in list(vars(inner).items()):
            if not isinstance(value, nnx.Param | Frozen):
                continue
            full = ".".join(map(str, (*path, name)))
            meant = {other for other in names if f"{full}.".startswith(f"{other}.")}
            unused -= meant
            if isinstance(value, nnx.Param) and (meant or not names):
                if id(value) not in made:
                    made[id(value)] = Frozen.from_metadata(value.get_raw_value(), value.get_metadata())
                setattr(inner, name, made[id(value)])
    if unused:
        raise ValueError(f"{type(module).__name__} has no parameter {', '.join(sorted(unused))} to freeze")
    return module
