"""Names: normal forms, order, and the nearest of many."""

from __future__ import annotations

from time import process_time

import pytest

from port.mapping.names import natural, nearest, normal_form


@pytest.mark.parametrize(
    "name",
    ["blocks_3.attn.kernel", "blocks.3.attn.kernel", "blocks.layers.3.attn.kernel", "blocks.layers_3.attn.kernel"],
)
def test_ways_of_writing_a_list_have_one_form(name):
    assert normal_form(name) == "blocks.3.attn.kernel"


@pytest.mark.parametrize("name", ["conv1.weight", "layers.weight", "mlayers.3.w", "layers.3x.w", "fc_1x.w", "a_b.w"])
def test_what_only_looks_like_a_list_stays(name):
    assert normal_form(name) == name


def test_numbers_are_ordered_as_numbers():
    assert sorted(["l.10.w", "l.2.w", "l.a.w", "l.w", "k.3"], key=natural) == ["k.3", "l.2.w", "l.10.w", "l.a.w", "l.w"]


def test_the_nearest_is_named_and_none_where_none_is_near():
    assert nearest("conv1.wieght", ["fc.bias", "conv1.weight"]) == " (nearest: conv1.weight)"
    assert nearest("conv1.weight", ["zzz"]) == ""
    assert nearest("conv1.weight", []) == ""


@pytest.mark.parametrize("prefix", ["module.", "model.net."])
def test_the_nearest_of_many_is_found_by_its_parts_and_fast(prefix):
    names = [
        f"blocks.{block}.{layer}.{kind}" for block in range(200) for layer in "abcd" for kind in ("weight", "bias")
    ]
    others = {prefix + name for name in names}
    began = process_time()
    for name in names:
        assert nearest(name, others) == f" (nearest: {prefix}{name})"
    assert process_time() - began < 3
    assert nearest("blocks_7.a.weight", others) == f" (nearest: {prefix}blocks.7.a.weight)"
    assert nearest("x.y.z", others) == ""


def test_of_two_as_near_it_is_always_the_same():
    candidates = {f"a.{letter}" for letter in "bcdefghijklm"}
    assert {nearest("a.x", set(order)) for order in (sorted(candidates), sorted(candidates, reverse=True))} == {
        " (nearest: a.b)"
    }
