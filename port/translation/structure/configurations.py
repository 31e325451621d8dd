"""Configurations that the original's constructors take, as frozen dataclasses of the fields that are read."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from port.translation.frontend.construction.arguments import is_configuration
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, dotted, literal
from port.translation.ir.origin_numbers import plain
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.own_arguments import Configuration, configuration_of

_MISSING = inspect.Parameter.empty


@dataclass(frozen=True)
class ConfigurationField:
    """A field that is read.

    Attributes:
        name: of the field.
        value: what it is in the model that is translated; a `Configuration` of its own, or a constant.
        default: the original's; None where it has none that source can say.
    """

    name: str
    value: syntax.Expr
    default: syntax.Expr | None


@dataclass(frozen=True)
class ConfigurationClass:
    """A configuration's class to be written.

    Attributes:
        name: of the class.
        original: the original's.
        fields: those without a default first.
    """

    name: str
    original: type
    fields: tuple[ConfigurationField, ...]


def configurations_of(classes: Iterable[FoldedClass]) -> tuple[ConfigurationClass, ...]:
    """The configurations that constructors take, each with the fields that any of them reads."""
    written = list(classes)
    read: dict[type, tuple[Any, dict[str, None]]] = {}
    for made in written:
        for argument in made.arguments:
            for configuration in filter(None, map(configuration_of, argument.values.values())):
                for chain in _chains(made.attributes, argument.name):
                    _take(read, configuration.held, chain)
    taken = {made.name for made in written}
    found = []
    for original, (held, names) in read.items():
        name = original.__name__ if original.__name__ not in taken else f"{original.__name__}_"
        taken.add(name)
        found.append(ConfigurationClass(name, original, _fields(original, held, names)))
    return tuple(found)


def constructed_with(root: FoldedClass, configurations: Iterable[ConfigurationClass]) -> dict[str, syntax.Expr]:
    """What the root's constructor is given to make the model that is translated, but for defaults."""
    known = {one.original: one for one in configurations}
    passed = {
        argument.name: argument.values[""] for argument in root.arguments if argument.values[""] != argument.default
    }
    return {name: _constructed(value, known) for name, value in passed.items()}


def _constructed(value: syntax.Expr, known: Mapping[type, ConfigurationClass]) -> syntax.Expr:
    configuration = configuration_of(value)
    if configuration is None:
        return value
    made = known[configuration.original]
    keywords = (
        syntax.Keyword(field.name, _constructed(field.value, known))
        for field in made.fields
        if field.value != field.default
    )
    return syntax.Call(syntax.Name(made.name), (), tuple(keywords))


def _chains(attributes: Mapping[str, syntax.Expr], argument: str) -> Iterator[tuple[str, ...]]:
    """The names behind an argument: ``("text", "width")`` for ``config.text.width``."""
    for node in syntax.walk(*attributes.values()):
        if isinstance(node, syntax.Attribute):
            first, *names = dotted(node).split(".")
            if first == argument:
                yield tuple(names)


def _take(read: dict[type, tuple[Any, dict[str, None]]], held: Any, chain: tuple[str, ...]) -> None:
    """Take note of the fields that a chain of names reads."""
    for name in chain:
        read.setdefault(type(held), (held, {}))[1][name] = None
        held = vars(held).get(name)
        if not is_configuration(held):
            return


def _fields(original: type, held: Any, names: Iterable[str]) -> tuple[ConfigurationField, ...]:
    order = list(vars(held))
    fields = [
        ConfigurationField(name, _value(vars(held)[name]), _default(original, name))
        for name in sorted(names, key=order.index)
    ]
    return (*(field for field in fields if field.default is None), *(field for field in fields if field.default))


def _value(value: Any) -> syntax.Expr:
    if is_configuration(value):
        return syntax.Const(Configuration(type(value), value))
    return literal(tuple(value) if isinstance(value, list) else plain(value))


def _default(original: type, name: str) -> syntax.Expr | None:
    """The original's default of a field: a dataclass's, or that of the constructor's parameter of this name."""
    default: Any = _MISSING
    if dataclasses.is_dataclass(original):
        default = next((field.default for field in dataclasses.fields(original) if field.name == name), _MISSING)
    else:
        for base in original.__mro__[:-1]:
            parameter = inspect.signature(base.__init__).parameters.get(name) if "__init__" in vars(base) else None  # type: ignore[misc]
            if parameter is not None:
                default = parameter.default
                break
    if default is _MISSING or default is dataclasses.MISSING:
        return None
    try:
        return literal(default)
    except NoSource:
        return None
