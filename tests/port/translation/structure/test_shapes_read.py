"""Numbers that are read from the shapes of arrays in the written code."""

from __future__ import annotations

import pytest

from port.translation.ir import syntax
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.ir.origin import AttributeOf, LengthOf, LiteralAt, NamedLength, Origin, ShapeRead, WorkedOut, said
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.shapes_read import with_shapes_read

HERE = SourceLocation("net.py", 3)
# An image (N, C, H, W) that lies as (N, H, W, C), and tokens whose length is free.
HELD = {
    "x": (Value("x", (2, 3, 5, 7), "float32"), Layout((0, 2, 3, 1))),
    "tokens": (Value("tokens", (2, "t", 6), "float32"), Layout((0, 1, 2))),
}


def read(value: float, origin: Origin) -> str:
    made = with_shapes_read(syntax.Const(value, origin=origin), HELD.get)
    assert isinstance(made, syntax.Const) and made.origin is not None
    return said(made.origin)


@pytest.mark.parametrize(
    ("tensor", "axis", "value", "text"),
    [
        ("x", 1, 3, "x.shape[3]"),
        ("x", -1, 7, "x.shape[-2]"),
        ("x", -3, 3, "x.shape[-1]"),
        ("tokens", 2, 6, "tokens.shape[2]"),
    ],
)
def test_an_axis_is_where_it_lies(tensor: str, axis: int, value: int, text: str) -> None:
    assert read(value, LengthOf(tensor, axis, HERE)) == text


def test_what_is_worked_out_of_it() -> None:
    origin = WorkedOut("/", (LiteralAt(1.0), WorkedOut("math.sqrt", (LengthOf("tokens", -1, HERE),))))
    assert read(1.0 / 6**0.5, origin) == "1.0 / math.sqrt(tokens.shape[-1])"


@pytest.mark.parametrize(
    ("tensor", "axis", "value"),
    [("x", 1, 4), ("tokens", 1, 9), ("other", 0, 2), ("x", 4, 2)],
    ids=["another array of that name", "a free length", "no such variable", "no such axis"],
)
def test_what_cannot_be_read_is_left(tensor: str, axis: int, value: int) -> None:
    origin = LengthOf(tensor, axis, HERE)
    made = with_shapes_read(syntax.Const(value, origin=origin), HELD.get)
    assert made == syntax.Const(value)
    assert not isinstance(made.origin, ShapeRead)


def test_what_has_a_name_is_read_by_it() -> None:
    def named(origin: LengthOf) -> NamedLength | None:
        return NamedLength("C", 6) if origin.axis == 2 else None

    def read_with(value: int, heads: int) -> Origin | None:
        origin = WorkedOut("//", (LengthOf("tokens", 2, HERE), AttributeOf("", "heads")))
        made = with_shapes_read(syntax.Const(value, origin=origin), HELD.get, named, lambda _: heads)
        assert isinstance(made, syntax.Const)
        return made.origin

    found = read_with(3, 2)
    assert found is not None and said(found) == "C // self.heads"
    assert not list(filter(lambda each: isinstance(each, NamedLength), [read_with(3, 3)]))
    unlike = read_with(3, 3)  # the attribute is another by now
    assert unlike is not None and said(unlike) == "tokens.shape[2] // self.heads"
