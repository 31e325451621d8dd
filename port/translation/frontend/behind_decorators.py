"""A function behind decorators, made anew: each wrapper is copied around the new one, with what it closes over."""

from __future__ import annotations

from types import CellType, FunctionType


def decorated(function: FunctionType) -> FunctionType:
    """The function that decorators wrap; itself where none does, or where what they wrap cannot be exchanged.

    Args:
        function: as it stands in a class; wrappers say what they wrap, as `functools.wraps` does.
    """
    inner = vars(function).get("__wrapped__")
    return decorated(inner) if isinstance(inner, FunctionType) and _places(function, inner) else function


def behind_decorators(function: FunctionType, made: FunctionType) -> FunctionType:
    """The same wrappers around another function.

    Args:
        function: stays as it is.
        made: takes the place of ``decorated(function)``.
    """
    inner = vars(function).get("__wrapped__")
    if not isinstance(inner, FunctionType) or not (places := _places(function, inner)):
        return made
    new = behind_decorators(inner, made)
    cells = function.__closure__ or ()
    closure = tuple(CellType(new) if place in places else cell for place, cell in enumerate(cells))
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    copy.__annotations__, copy.__qualname__ = function.__annotations__, function.__qualname__
    vars(copy).update(vars(function), __wrapped__=new)
    return copy


def _places(function: FunctionType, inner: FunctionType) -> set[int]:
    """Where a wrapper holds what it wraps, among the variables that it closes over."""
    cells = enumerate(function.__closure__ or ())
    return {place for place, cell in cells if _contents(cell) is inner}


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # of a variable that is not assigned yet
        return None
