"""Names of a folded class's arguments: the original's, from its constructor or its attributes."""

from __future__ import annotations

from typing import Any

from torch import nn

from port.translation.ir import syntax
from port.translation.structure.anti_unify import Difference, Holes
from port.translation.structure.class_merge import ClassForm
from port.translation.structure.ctor_args import name_holes


class Stage(nn.Module):
    """A block whose constructor calls its widths by names of its own."""

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        *,
        rate: float = 0.1,
        act: str = "relu",
        self_norm: Any = None,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inplanes, planes, 3, stride)
        self.norm = nn.BatchNorm2d(planes, eps=1e-3)
        self.drop = nn.Dropout(p=rate)
        self.act = act
        self.wide = 2 * planes


def forms(*modules: nn.Module) -> list[ClassForm]:
    return [ClassForm(str(k), module, {}, None) for k, module in enumerate(modules)]


def named(*holes: Difference, modules: list[ClassForm] | None = None, taken: set[str] | None = None) -> list[Any]:
    return name_holes(Holes(list(holes)), modules or forms(Stage(2, 4), Stage(4, 6)), taken or set(), set(), set())


def test_the_name_in_the_place_of_the_argument() -> None:
    first, second, third, fourth = named(
        Difference((2, 4), ("conv", "in_features")),
        Difference((4, 6), ("conv", "out_features")),
        Difference((1, 3), ("conv", "strides")),
        Difference((0.1, 0.2), ("drop", "rate")),
    )
    assert [item.name for item in (first, second, third, fourth)] == ["inplanes", "planes", "stride", "rate"]
    assert [item.order for item in (first, second, third, fourth)] == [0, 1, 2, 3]


def test_the_default_of_the_original_is_kept_where_an_instance_has_it() -> None:
    (stride,) = named(Difference((1, 3), ("conv", "strides")))
    assert stride.default == syntax.Const(1)
    (stride,) = named(Difference((2, 3), ("conv", "strides")))
    assert stride.default is None
    (stride,) = named(Difference((True, 3), ("conv", "strides")))
    assert stride.default is None  # True is no 1
    (planes,) = named(Difference((4, 6), ("norm", "num_features")))
    assert (planes.name, planes.default) == ("planes", None)


def test_what_the_module_keeps_under_its_arguments_name() -> None:
    (act,) = named(Difference(("relu", "gelu"), ("", "name")), modules=forms(Stage(2, 4), Stage(2, 4, act="gelu")))
    assert act.name == "act"


def test_where_the_original_has_no_name_the_place_gives_one() -> None:
    assert [item.name for item in named(Difference((8, 12), ("up", "features")))] == ["up_features"]
    assert [item.name for item in named(Difference((8, 12), ("up",)))] == ["up"]
    assert [item.name for item in named(Difference((8, 13), ()))] == ["number"]
    assert [item.name for item in named(Difference((8, 12), ()))] == ["wide"]  # what the module keeps
    assert [item.name for item in named(Difference((8, 12), ("", "axis")))] == ["axis"]


def worked_out(*holes: Difference) -> list[str]:
    """The expressions for numbers that the call reads."""
    found = name_holes(Holes(list(holes)), forms(Stage(2, 4), Stage(4, 6)), set(), set(range(len(holes))), set())
    return [syntax.source(item.written("self.")) for item in found]


def test_numbers_that_follow_from_the_originals_own() -> None:
    wide = Difference((8, 12), ())
    assert worked_out(Difference((-8, -12), ()), wide) == ["-self.wide", "self.wide"]
    assert worked_out(wide, Difference((64, 144), ())) == ["self.wide", "self.wide * self.wide"]
    assert worked_out(wide, Difference((8**-0.5, 12**-0.5), ())) == ["self.wide", "self.wide ** -0.5"]
    assert worked_out(wide, Difference((-7, None), ())) == [
        "self.wide",
        "1 - self.wide",
    ]  # one instance lacks the statement
    assert worked_out(wide, Difference((-7, -12), ())) == ["self.wide", "self.number"]
    assert worked_out(Difference((3, 5), ()), Difference((9, 25), ())) == [
        "self.number",
        "self.number2",
    ]  # nobody named the one


def test_a_name_is_used_once() -> None:
    one, two = named(Difference((8, 12), ("up", "n")), Difference((9, 13), ("up", "n")))
    assert (one.name, two.name) == ("up_n", "up_n2")
    (other,) = named(Difference((4, 6), ("conv", "out_features")), taken={"planes"})
    assert other.name == "conv_out_features"
    (reserved,) = named(Difference((8, 12), ("rngs",)))
    assert reserved.name == "rngs2"
    (reserved,) = named(Difference((8, 12), ("jnp",)))
    assert reserved.name == "jnp2"


def test_a_class_whose_constructor_has_no_source() -> None:
    made = type("Made", (nn.Module,), {})
    (item,) = named(Difference((1, 2), ("conv", "strides")), modules=forms(made(), made()))
    assert item.name == "conv_strides"
