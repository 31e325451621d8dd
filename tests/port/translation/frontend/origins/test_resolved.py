"""The resolved items of an expression."""

from __future__ import annotations

from torch import nn

from port.translation.frontend.origins.frame_objects import MISSING
from port.translation.frontend.origins.resolved import Resolved, ShapeOf
from port.translation.ir.origin import AttributeOf
from port.translation.ir.source_location import SourceLocation

HEADS, DIM = AttributeOf("", "heads"), AttributeOf("", "dim")
SHAPE = ShapeOf("x", SourceLocation("net.py", 3))


def test_an_attributes_items_are_attributes() -> None:
    assert Resolved((3, 5), AttributeOf("conv", "stride")).item(-1) == Resolved(5, AttributeOf("conv", "stride[1]"))
    assert Resolved({"dim": 5}, AttributeOf("", "sizes")).item("dim") == Resolved(5, AttributeOf("", "sizes['dim']"))
    modules = nn.ModuleList([nn.Identity(), nn.Linear(5, 3)])
    assert Resolved(modules, AttributeOf("", "layers")).item(1).value is modules[1]
    assert Resolved((3, 5)).item(2) == Resolved((3, 5)).item(MISSING) == Resolved()


def test_a_shapes_items_are_lengths() -> None:
    assert Resolved((7, 5), shape=SHAPE).item(-1) == Resolved(5, SHAPE.length(-1))
    assert Resolved(shape=SHAPE).item(1) == Resolved(origin=SHAPE.length(1))
    both = Resolved(shape=SHAPE).observed_as((7, 5)).each_item()
    assert both == (Resolved(7, SHAPE.length(0)), Resolved(5, SHAPE.length(1)))


def test_what_is_seen_to_be_another_has_no_origin() -> None:
    assert Resolved(3, HEADS).observed_as(3) == Resolved(3, HEADS)
    assert Resolved(origin=HEADS).observed_as(3) == Resolved(3, HEADS)
    assert Resolved(3, HEADS).observed_as(5) == Resolved(5)
    assert Resolved(1, HEADS).observed_as(True) == Resolved(True)
    assert Resolved(3, HEADS).observed_as(MISSING) == Resolved(3, HEADS)
    items = Resolved(items=(Resolved(3, HEADS), Resolved(5, DIM)))
    assert items.observed_as((3, 7)).each_item() == (Resolved(3, HEADS), Resolved(7))
    assert items.observed_as((3, 5, 7)).each_item() == (Resolved(3), Resolved(5), Resolved(7))


def test_what_a_dict_holds() -> None:
    assert Resolved(named={"n": Resolved(3, HEADS)}).item("n") == Resolved(3, HEADS)
    assert Resolved({3: 5}).each_named() is None and Resolved(3).each_named() is None
    assert Resolved(named={"n": Resolved(3, HEADS)}).has_origin and not Resolved({"n": 3}).has_origin
