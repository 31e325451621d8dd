"""Levels: layers by single tensors, and layers that are stacked on the other side."""

from __future__ import annotations

from dataclasses import replace

from port.matching.levels import by_tensor, stacked, unstacked
from port.matching.units import Unit

from .chains import unit


def fits(one: Unit, other: Unit) -> bool:
    return list(one.shapes.values()) == list(other.shapes.values())


LAYER = unit("fc", weight=(6, 4), bias=(6,))


def test_a_layer_that_the_other_side_holds_tensor_by_tensor_is_taken_apart() -> None:
    single = [unit("w", "own", kernel=(6, 4)), unit("b", "own", bias=(6,))]
    weight, bias = by_tensor([LAYER], single, fits)
    assert (weight.names, weight.family, weight.seen) == ({"weight": "fc.weight"}, "linear", ("fc", None))
    assert (bias.names, bias.family, bias.seen) == ({"bias": "fc.bias"}, "own", (None, None))


def test_a_layer_that_has_a_twin_or_lacks_one_for_a_tensor_stays_whole() -> None:
    single = [unit("w", "own", kernel=(6, 4)), unit("b", "own", bias=(6,))]
    whole = unit("dense", kernel=(6, 4), bias=(6,))
    assert by_tensor([LAYER], [*single, whole], fits) == [LAYER]
    assert by_tensor([LAYER], single[:1], fits) == [LAYER]
    assert by_tensor([replace(LAYER, stack=(2, 0))], single, fits) == [replace(LAYER, stack=(2, 0))]


def test_layers_of_one_name_are_one_where_the_other_side_stacks_them() -> None:
    layers = [unit(f"layers.{number}.fc", weight=(6, 4)) for number in (10, 2, 9)]
    theirs, ours = stacked(layers, [unit("scan", "own", kernel=(3, 6, 4))], fits)
    assert theirs[0].tensors == ("layers.2.fc.weight", "layers.9.fc.weight", "layers.10.fc.weight")
    assert ours[0].stack == (3, 0) and ours[0].shapes == {"kernel": (6, 4)}
    assert stacked(layers, [unit("scan", "own", kernel=(4, 6, 4))], fits)[0] == layers


def test_a_stack_has_so_many_layers_along_its_axis() -> None:
    whole = unit("scan", kernel=(6, 3, 4), bias=(6, 3))
    one = unstacked(whole, 3, 1)
    assert one is not None and one.shapes == {"kernel": (6, 4), "bias": (6,)} and one.seen == (None, None)
    assert unstacked(whole, 3, 0) is None and unstacked(whole, 4, 1) is None
