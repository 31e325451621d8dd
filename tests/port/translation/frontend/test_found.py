"""What is known of what an expression holds."""

from __future__ import annotations

from torch import nn

from port.translation.frontend.found import Found, ShapeOf
from port.translation.frontend.frame_objects import MISSING
from port.translation.ir.origin import AttributeOf
from port.translation.ir.source_location import SourceLocation

HEADS, DIM = AttributeOf("", "heads"), AttributeOf("", "dim")
SHAPE = ShapeOf("x", SourceLocation("net.py", 3))


def test_an_attributes_items_are_attributes() -> None:
    assert Found((3, 5), AttributeOf("conv", "stride")).item(-1) == Found(5, AttributeOf("conv", "stride[1]"))
    assert Found({"dim": 5}, AttributeOf("", "sizes")).item("dim") == Found(5, AttributeOf("", "sizes['dim']"))
    modules = nn.ModuleList([nn.Identity(), nn.Linear(5, 3)])
    assert Found(modules, AttributeOf("", "layers")).item(1).value is modules[1]
    assert Found((3, 5)).item(2) == Found((3, 5)).item(MISSING) == Found()


def test_a_shapes_items_are_lengths() -> None:
    assert Found((7, 5), shape=SHAPE).item(-1) == Found(5, SHAPE.length(-1))
    assert Found(shape=SHAPE).item(1) == Found(origin=SHAPE.length(1))
    both = Found(shape=SHAPE).seen_as((7, 5)).each_item()
    assert both == (Found(7, SHAPE.length(0)), Found(5, SHAPE.length(1)))


def test_what_is_seen_to_be_another_has_no_origin() -> None:
    assert Found(3, HEADS).seen_as(3) == Found(3, HEADS)
    assert Found(origin=HEADS).seen_as(3) == Found(3, HEADS)
    assert Found(3, HEADS).seen_as(5) == Found(5)
    assert Found(1, HEADS).seen_as(True) == Found(True)
    assert Found(3, HEADS).seen_as(MISSING) == Found(3, HEADS)
    items = Found(items=(Found(3, HEADS), Found(5, DIM)))
    assert items.seen_as((3, 7)).each_item() == (Found(3, HEADS), Found(7))
    assert items.seen_as((3, 5, 7)).each_item() == (Found(3), Found(5), Found(7))


def test_what_a_dict_holds() -> None:
    assert Found(named={"n": Found(3, HEADS)}).item("n") == Found(3, HEADS)
    assert Found({3: 5}).each_named() is None and Found(3).each_named() is None
    assert Found(named={"n": Found(3, HEADS)}).has_origin and not Found({"n": 3}).has_origin
