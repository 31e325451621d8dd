"""Configurations are written with the fields that constructors read, and with the original's defaults."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.argument import Argument
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.configurations import ConfigurationClass, configurations_of, constructed_with
from port.translation.structure.own_arguments import Configuration


@dataclass
class Inner:
    width: int
    ratio: float = 2.0


@dataclass
class Settings:
    dim: int = 4
    depth: int = 3
    inner: Inner = field(default_factory=lambda: Inner(5))
    sizes: list[int] = field(default_factory=lambda: [3, 5])
    unread: Any = object


class PlainConfig:
    def __init__(self, dim: int, depth: int = 3, **more: Any) -> None:
        self.dim, self.depth = dim, depth
        self.extra = more.get("extra", 7)


class DerivedConfig(PlainConfig):
    pass


class Net:
    """Stands for the original's class."""


def folded(held: Any, *reads: str, name: str = "Net") -> FoldedClass:
    """A class whose constructor is given a configuration, and reads some of it."""
    given = Argument("config", {"": syntax.Const(Configuration(type(held), held))}, False, is_said=True)
    attributes = {f"layer{number}": code(f"f({read})") for number, read in enumerate(reads)}
    return FoldedClass(name, ("",), Net, (given,), attributes, None)


def shown(made: ConfigurationClass) -> dict[str, tuple[str, str | None]]:
    """A configuration's fields: values and defaults."""

    def text(value: syntax.Expr | None) -> str | None:
        if isinstance(value, syntax.Const) and isinstance(value.value, Configuration):
            return value.value.original.__name__
        return None if value is None else syntax.source(value)

    return {field.name: (text(field.value) or "", text(field.default)) for field in made.fields}


def test_fields_that_are_read_those_without_default_first() -> None:
    (made,) = configurations_of([folded(Settings(6), "config.depth", "config.dim * config.sizes[1]")])
    assert (made.name, made.original) == ("Settings", Settings)
    assert list(shown(made).items()) == [("sizes", ("(3, 5)", None)), ("dim", ("6", "4")), ("depth", ("3", "3"))]


def test_one_within_another() -> None:
    net = folded(Settings(6), "config.inner.width")
    outer, inner = configurations_of([net])
    assert shown(outer) == {"inner": ("Inner", None)}
    assert shown(inner) == {"width": ("5", None)}
    given = constructed_with(net, (outer, inner))
    assert {name: syntax.source(value) for name, value in given.items()} == {"config": "Settings(inner=Inner(width=5))"}


def test_defaults_are_left_out_of_what_is_given() -> None:
    for held, text in ((Settings(6), "Settings(dim=6)"), (Settings(), "Settings()")):
        net = folded(held, "config.dim", "config.depth")
        assert syntax.source(constructed_with(net, configurations_of([net]))["config"]) == text


def test_other_kinds() -> None:
    (made,) = configurations_of([folded(Namespace(dim=4, lr=3.0), "config.dim")])
    assert (made.name, shown(made)) == ("Namespace", {"dim": ("4", None)})
    (made,) = configurations_of([folded(DerivedConfig(4), "config.dim", "config.depth", "config.extra")])
    assert shown(made) == {"dim": ("4", None), "extra": ("7", None), "depth": ("3", "3")}


def test_several_classes_read_one() -> None:
    settings = Settings(6)
    (made,) = configurations_of([folded(settings, "config.dim"), folded(settings, "config.depth", name="Other")])
    assert list(shown(made)) == ["dim", "depth"]


def test_none_is_written_of_which_nothing_is_read() -> None:
    assert configurations_of([folded(Settings(), "other.dim")]) == ()


def test_a_name_that_is_taken() -> None:
    (made,) = configurations_of([folded(Settings(), "config.dim", name="Settings")])
    assert made.name == "Settings_"
