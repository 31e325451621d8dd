"""Replace the function inside decorators: each wrapper is copied around the new function, with its closure."""

from __future__ import annotations

from types import CellType, FunctionType


def undecorated(function: FunctionType) -> FunctionType:
    """Return the function inside decorators; the function itself if there are none, or if they cannot be copied.

    Args:
        function: a function in a class; each wrapper has ``__wrapped__``, which `functools.wraps` sets.
    """
    inner = vars(function).get("__wrapped__")
    return undecorated(inner) if isinstance(inner, FunctionType) and _places(function, inner) else function


def redecorated(function: FunctionType, made: FunctionType) -> FunctionType:
    """Return copies of a function's wrappers around another function.

    Args:
        function: left unchanged.
        made: the function that replaces ``undecorated(function)``.
    """
    inner = vars(function).get("__wrapped__")
    if not isinstance(inner, FunctionType) or not (places := _places(function, inner)):
        return made
    new = redecorated(inner, made)
    cells = function.__closure__ or ()
    closure = tuple(CellType(new) if place in places else cell for place, cell in enumerate(cells))
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    copy.__annotations__, copy.__qualname__ = function.__annotations__, function.__qualname__
    vars(copy).update(vars(function), __wrapped__=new)
    return copy


def _places(function: FunctionType, inner: FunctionType) -> set[int]:
    """Return the places of the wrapped function in a wrapper's closure."""
    cells = enumerate(function.__closure__ or ())
    return {place for place, cell in cells if _contents(cell) is inner}


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not assigned yet
        return None
