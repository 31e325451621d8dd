"""Shape checks for the arguments of a function."""

from __future__ import annotations

from functools import cache
from types import CodeType

from jax.typing import ArrayLike


def expect(array: ArrayLike, lengths: str, **known: int) -> None:
    """Check an array's shape: ``expect(x, "n 32 32 3")``, ``expect(tokens, "n t; t <= 64")``.

    A number is a required length. A name is any length; every use of a name must have the same length. Conditions on
    the names follow after semicolons. Shapes are known at trace time, so under `jax.jit` the check costs nothing.

    Args:
        array: of any shape.
        lengths: of its axes, in order, then conditions.
        known: names whose lengths come from other arrays: ``n=x.shape[0]``.

    Raises:
        ValueError: not an array, a wrong number of axes, a wrong length, or a condition that does not hold.
    """
    axes, conditions = _parsed(lengths)
    wanted = f"expected an array of shape ({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    shape = getattr(array, "shape", None)
    if shape is None:
        raise ValueError(f"{wanted}, got {type(array).__name__}")
    wanted += f", got {tuple(shape)}"
    if len(shape) != len(axes):
        raise ValueError(f"{wanted}: it has {len(shape)} axes, not {len(axes)}")
    sizes = dict(known)
    for axis, (name, size) in enumerate(zip(axes, shape, strict=True)):
        length = int(name) if name.isdigit() else sizes.setdefault(name, size)
        if size != length:
            which = "" if name.isdigit() else f"{name} = "
            raise ValueError(f"{wanted}: axis {axis} has length {size}, and this was written for {which}{length}")
    for text, condition in conditions:
        if not _holds(condition, sizes):
            values = ", ".join(f"{name} = {size}" for name, size in sizes.items() if name in condition.co_names)
            raise ValueError(f"{wanted}: this was written for {text}, and {values}")


def _holds(condition: CodeType, sizes: dict[str, int]) -> bool:
    try:
        return bool(eval(condition, {"__builtins__": {}, "max": max, "min": min, "int": int}, sizes))
    except ZeroDivisionError:  # a length is 0
        return False


@cache
def _parsed(lengths: str) -> tuple[tuple[str, ...], tuple[tuple[str, CodeType], ...]]:
    first, *conditions = [part.strip() for part in lengths.split(";")]
    return tuple(first.split()), tuple((text, compile(text, "<lengths>", "eval")) for text in conditions)
