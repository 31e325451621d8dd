"""Merging: which groups are one node, where queries, keys and values come in one layer or in several."""

from __future__ import annotations

from collections.abc import Callable

from port.matching.merging import merged
from port.matching.options import Node, Option
from port.matching.units import Unit

from .chains import unit


def attention(name: str) -> tuple[Unit, Unit, Unit]:
    query, key, value = (unit(f"{name}.{part}", weight=(4, 4)) for part in ("q", "k", "v"))
    return query, key, value


def same(*groups: tuple[Unit, ...]) -> Callable[[Unit, Unit], bool]:
    return lambda one, other: any(one in group and other in group for group in groups)


def ways(ones: list[Unit], groups: list[Node]) -> list[Option]:
    return [Option((one,), group, ()) for one in ones for group in groups]


def nodes(fused: list[Option], units: list[Unit], *inputs: tuple[Unit, ...]) -> set[Node]:
    return set(merged(fused, ([], units), (same(), same(*inputs))).values())


def test_where_queries_come_from_elsewhere_keys_and_values_are_one() -> None:
    own, cross = attention("own"), attention("cross")
    fused = ways([unit("in_proj", weight=(12, 4))], [own, cross]) + ways(
        [unit("kv", weight=(8, 4))], [own[1:], cross[1:]]
    )
    assert nodes(fused, [*own, *cross], own, cross[1:]) == {own, cross[1:]}


def test_no_more_groups_are_one_than_there_are_layers_for_them() -> None:
    first, second, pool = attention("first"), attention("second"), attention("pool")
    fused = ways([unit("kv", weight=(8, 4))], [first[1:], second[1:], pool[1:]])
    assert nodes(fused, [*first, *second, *pool], first, second, pool[1:]) == {pool[1:]}


def test_larger_groups_come_first() -> None:
    own = attention("own")
    fused = ways([unit("kv", weight=(8, 4))], [own[1:]]) + ways([unit("in_proj", weight=(12, 4))], [own])
    assert nodes(fused, list(own), own) == {own}
