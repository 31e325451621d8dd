"""Python calls as data, which can be executed or written as source.

Pairs of optimizers and schedules return them, so the code that runs and the code that is printed cannot differ.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from port.pairs.layout import Brackets, Joined, Piece, written

# Conventional imports of some modules; others are imported by their full name.
_IMPORTS = {
    "jax.numpy": ("jnp", "import jax.numpy as jnp"),
    "numpy": ("np", "import numpy as np"),
    "port.transforms": ("transforms", "from port import transforms"),
    "port.optim": ("optim", "from port import optim"),
}


_SCRIPT = "__main__."
"""Prefix of names of the running script or notebook, which need no import there."""


@dataclass(frozen=True)
class Reference:
    """A parameter of an enclosing `Function` (``"b1"``), or a dotted public name (``"optax.adam"``)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Given:
    """A user's function; in source it is written as its name, or as a lambda.

    Attributes:
        function: the function.
        text: its source: ``"train.get_lr"`` for the module train, a name in the running script, or a lambda.
        modules: the modules that a lambda uses.
    """

    function: Callable[..., Any]
    text: str
    modules: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module that a dotted name is imported from; "" for any other text."""
        dotted = all(part.isidentifier() for part in self.text.split("."))
        return self.text.rpartition(".")[0] if dotted else ""


@dataclass(frozen=True)
class Function:
    """A function: a lambda in source, a closure with the same signature when built.

    Attributes:
        parameters: their names.
        body: the returned value: an `Expression`, or any value that one may contain.
    """

    parameters: tuple[str, ...]
    body: Any

    def build(self) -> Callable[..., Any]:
        """Build the function."""
        built: Callable[..., Any] = _built(self, {})
        return built

    def source(self, *, width: int = 120, indent: int = 0) -> str:
        """Return the lambda's source; see `Expression.source`."""
        return written(_piece(self), width, indent)


@dataclass(frozen=True, eq=False)
class Expression:
    """A call. Two are equal if their sources are.

    Attributes:
        function: the called function: a dotted public name (``"optax.chain"``), or something that returns one: another
            `Expression` (``optax.inject_hyperparams(...)``), a `Function`, a `Reference`.
        arguments: positional arguments: numbers, strings, None, numpy arrays, `Expression`, `Function`, `Reference`,
            and lists, tuples and dicts of them; `Given` functions.
        options: keyword arguments.
    """

    function: str | Expression | Function | Reference
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Any:
        """Import what is named, and make the call.

        Raises:
            NameError: a `Reference` that is not a parameter of an enclosing `Function`.
        """
        return _built(self, {})

    def source(self, *, width: int = 120, indent: int = 0) -> str:
        """Return Python source, formatted as by ``ruff format``.

        Args:
            width: the longest line.
            indent: the column of the first line, and of the last line's closing bracket.
        """
        return written(_piece(self), width, indent)

    def imports(self) -> list[str]:
        """Return the import lines that the source needs, sorted."""
        return sorted({_import(name)[1] for name in _public_names(self) if not name.startswith(_SCRIPT)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.source() == other.source()

    def __hash__(self) -> int:
        return hash(self.source())


def _built(value: Any, names: Mapping[str, Any]) -> Any:
    match value:
        case Expression():
            function = Reference(value.function) if isinstance(value.function, str) else value.function
            arguments = [_built(argument, names) for argument in value.arguments]
            options = {option: _built(argument, names) for option, argument in value.options.items()}
            return _built(function, names)(*arguments, **options)
        case Given():
            return value.function
        case Function():
            return _closure(value, names)
        case Reference() if "." in value.name:
            module, _, attribute = value.name.rpartition(".")
            return getattr(import_module(module), attribute)
        case Reference():
            if value.name not in names:
                raise NameError(f"name {value.name!r} is not a parameter of an enclosing function")
            return names[value.name]
        case list():
            return [_built(item, names) for item in value]
        case tuple():
            return tuple(_built(item, names) for item in value)
        case dict():
            return {key: _built(item, names) for key, item in value.items()}
        case _:
            return value


def _closure(function: Function, names: Mapping[str, Any]) -> Callable[..., Any]:
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in function.parameters]
    signature = inspect.Signature(parameters)

    def closure(*arguments: Any, **options: Any) -> Any:
        return _built(function.body, {**names, **signature.bind(*arguments, **options).arguments})

    # optax.inject_hyperparams reads the names of the hyperparameters here.
    closure.__signature__ = signature  # type: ignore[attr-defined]
    return closure


def _piece(value: Any) -> Piece:
    match value:
        case Expression():
            options = [Joined((f"{name}=", _piece(argument))) for name, argument in value.options.items()]
            called = Brackets("(", (*map(_piece, value.arguments), *options), ")", together=True)
            return Joined((_callee(value.function), called))
        case Function():
            return Joined((f"lambda {', '.join(value.parameters)}: ".replace(" :", ":"), _piece(value.body)))
        case Reference():
            return _reference(value.name)
        case Given():
            return _reference(value.text) if value.module else value.text
        case np.ndarray():
            # Other dtypes are written out: Python's numbers become float64, int64 and bool.
            dtype = () if value.dtype in (np.float64, np.int64, np.bool_) else (f"dtype=np.{value.dtype.name}",)
            return Joined(("np.array", Brackets("(", (_piece(value.tolist()), *dtype), ")", together=True)))
        case list():
            return Brackets("[", tuple(map(_piece, value)), "]")
        case tuple():
            return Brackets("(", tuple(map(_piece, value)), ",)" if len(value) == 1 else ")")
        case dict():
            return Brackets("{", tuple(Joined((f"{_text(key)}: ", _piece(item))) for key, item in value.items()), "}")
        case _:
            return _text(value)


def _callee(function: str | Expression | Function | Reference) -> Piece:
    if isinstance(function, str):
        return _reference(function)
    # Parentheses around a lambda: unlike a tuple's they take no comma, so they never break.
    return Joined(("(", _piece(function), ")")) if isinstance(function, Function) else _piece(function)


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not np.isfinite(value):
            return f'float("{value}")'
        return re.sub(r"e([+-])0?(\d+)$", lambda power: f"e{power[1].strip('+')}{power[2]}", repr(value))
    if isinstance(value, str) and '"' not in value:
        return f'"{repr(value)[1:-1]}"'
    return repr(value)


def _import(name: str) -> tuple[str, str]:
    """Return the name of a dotted name's module in source, and its import line."""
    module = name.rpartition(".")[0]
    return _IMPORTS.get(module, (module, f"import {module}"))


def imported_as(module: str) -> str:
    """Return the name of a module in source."""
    return _import(f"{module}.")[0]


def _reference(name: str) -> str:
    if name.startswith(_SCRIPT):
        return name.removeprefix(_SCRIPT)
    return f"{_import(name)[0]}.{name.rpartition('.')[2]}" if "." in name else name


def _public_names(value: Any) -> Iterator[str]:
    match value:
        case Expression():
            function = Reference(value.function) if isinstance(value.function, str) else value.function
            yield from _public_names((function, *value.arguments, *value.options.values()))
        case Function():
            yield from _public_names(value.body)
        case Reference() if "." in value.name:
            yield value.name
        case Given():
            yield from [value.text] if value.module else [f"{module}." for module in value.modules]
        case np.ndarray():
            yield "numpy.array"
        case list() | tuple():
            for item in value:
                yield from _public_names(item)
        case dict():
            yield from _public_names(list(value.values()))
