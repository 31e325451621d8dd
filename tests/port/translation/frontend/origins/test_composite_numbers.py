"""Numbers of composite operators are found in the operators that they are decomposed into."""

from __future__ import annotations

import pytest

from port.translation.frontend.origins.composite_numbers import NotedOperation
from port.translation.ir.number import KnownNumber
from port.translation.ir.origin import AttributeOf, DefaultOf, LiteralAt
from port.translation.ir.source_location import SourceLocation

HEADS = KnownNumber(3, AttributeOf("", "heads"))
DEFAULT = KnownNumber(1, DefaultOf("aten.split.Tensor", "dim"))


def _literal(value: int) -> KnownNumber:
    return KnownNumber(value, LiteralAt(value, SourceLocation("net.py", 3)))


def test_the_operator_itself_has_all_of_them_also_where_it_wrote_in_place() -> None:
    numbers = {("other",): HEADS, ("alpha",): DEFAULT}
    assert NotedOperation("add_", {}, numbers).of_part("add", {}) == numbers


def test_another_has_those_of_the_same_name_that_are_written() -> None:
    assert NotedOperation("chunk", {}, {("chunks",): HEADS, ("dim",): DEFAULT}).of_part("split", {}) == {
        ("chunks",): HEADS
    }


def test_the_shape_of_a_reshape() -> None:
    note = NotedOperation("reshape", {"shape": [5, 3]}, {("shape", 1): HEADS})
    assert (
        note.of_part("view", {"size": [5, 3]}) == note.of_part("_unsafe_view", {"size": [5, 3]}) == {("size", 1): HEADS}
    )
    assert NotedOperation("flatten", {}, {("start_dim",): HEADS}).of_part("view", {"size": [5, 3]}) == {}


@pytest.mark.parametrize(("axis", "first"), [(0, 0), (1, 1), (2, 2), (-1, 2), (-2, 1), (-3, 0)])
def test_the_lengths_of_an_axis_that_is_unflattened(axis: int, first: int) -> None:
    numbers = {("dim",): _literal(axis), ("sizes", 0): HEADS}
    note = NotedOperation("unflatten", {"dim": axis, "sizes": [3, 7]}, numbers)
    assert note.of_part("view", {"size": [1, 2, 4, 5]}) == {("size", first): HEADS}
    assert NotedOperation("unflatten", {"sizes": [3, 7]}, {("sizes", 0): HEADS}).of_part("view", {"size": [3, 7]}) == {}
