"""The mapping: carries every tensor over, and back, bit for bit; refuses what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping, Permute, Split
from port.moves import Tie


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def one(source: str, target: str, *moves, **more) -> Entry:
    return Entry((source,), (target,), moves, **more)


def complaints_of(mapping: Mapping, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    with pytest.raises(WeightsMismatch) as caught:
        mapping.check(shapes)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_there_and_back_is_bit_identical_and_keeps_every_dtype():
    mapping = Mapping(
        (
            one("a.weight", "a.kernel", Permute((2, 0, 1))),
            one("n", "count"),
            one("a.bias", "a.bias"),
            Entry(("in.weight",), ("q", "k"), (Split(0, (3, 1)),)),
        )
    )
    arrays = {
        "a.weight": random(2, 3, 4).astype(np.float32),
        "n": np.array(7, np.int32),
        "a.bias": np.array([np.nan, -0.0, 1], np.float16),
        "in.weight": random(4, 2) > 0,
    }
    there = mapping(arrays)
    back = mapping.inverse()(there)
    assert set(there) == {"a.kernel", "count", "a.bias", "q", "k"}
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].tobytes() == array.tobytes()
    assert mapping.inverse().inverse() == mapping


def test_a_move_that_is_not_there_changes_what_comes_back():
    """The planted fault: an inverse that forgets a move of a square weight."""
    mapping = Mapping((one("a", "b", Permute((1, 0))),))
    forgetful = Mapping((one("b", "a"),))
    arrays = {"a": random(3, 3)}
    assert (forgetful(mapping(arrays))["a"] != arrays["a"]).any()


def test_everything_wrong_comes_sorted_in_one_message_with_the_nearest_name():
    mapping = Mapping((one("fc.weight", "k", shapes=((2, 3),)), one("c", "c"), one("bn.bias", "b"), one("a", "a")))
    shapes = {"fc.weight": (3, 2), "c": (1,), "bn.bais": (4,), "zz": (1,)}
    assert complaints_of(mapping, shapes) == [
        "missing: a",
        "missing: bn.bias (nearest: bn.bais)",
        "unexpected: bn.bais (nearest: bn.bias)",
        "unexpected: zz",
        "fc.weight has shape (3, 2), expected (2, 3)",
    ]


def test_shapes_that_no_one_told_are_judged_by_the_moves():
    mapping = Mapping((one("conv.weight", "conv.kernel", Permute((2, 3, 1, 0))),))
    (line,) = complaints_of(mapping, {"conv.weight": (3,)})
    assert line.startswith("conv.weight → conv.kernel  [permute(2, 3, 1, 0)]: permute(2, 3, 1, 0) needs")
    mapping.check({"conv.weight": (1, 2, 3, 4)})


def test_nothing_is_carried_if_anything_is_wrong():
    mapping = Mapping((one("a", "a"), one("b", "b")))
    with pytest.raises(WeightsMismatch, match="missing: b"):
        mapping({"a": random(2)})
    with pytest.raises(WeightsMismatch, match="unexpected: c"):
        mapping({"a": random(2), "b": random(2), "c": random(2)})


@pytest.mark.parametrize("there", [("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")])
def test_any_name_of_a_tied_weight_is_enough(there):
    mapping = Mapping((Entry(("a", "b", "c"), ("d",), (Tie(3),), shapes=((2,),) * 3),))
    array = random(2)
    assert mapping(dict.fromkeys(there, array))["d"].tolist() == array.tolist()
    with pytest.raises(WeightsMismatch, match="missing: a"):
        mapping({})


def test_tied_names_with_two_values_are_refused():
    mapping = Mapping((Entry(("a", "b"), ("d",), (Tie(2),)),))
    with pytest.raises(WeightsMismatch, match=r"a, b → d.*the tensors differ"):
        mapping({"a": random(2), "b": random(2) + 1e-12})


def test_the_way_back_gives_a_tied_weight_all_its_names():
    mapping = Mapping((Entry(("a", "b"), ("d",), (Tie(2), Permute((1, 0))), shapes=((2, 3),) * 2),))
    back = mapping.inverse()({"d": random(3, 2)})
    assert back["a"].tolist() == back["b"].tolist() == random(3, 2).T.tolist()


def test_what_is_optional_may_be_missing_as_a_whole():
    mapping = Mapping((one("a", "a"), Entry(("n", "m"), ("k",), optional=True)))
    assert set(mapping({"a": random(2)})) == {"a"}
    assert [entry.targets for entry in mapping.present({"a": 0})] == [("a",)]
    assert complaints_of(mapping, {"a": (2,), "n": ()}) == [
        "missing: m",
    ]


@pytest.mark.parametrize(
    ("entries", "twice"),
    [
        ((one("a", "b"), one("c", "b")), "target b"),
        ((one("a", "b"), one("a", "c")), "source a"),
        ((Entry(("a", "a"), ("b",), (Tie(2),)),), "source a"),
    ],
)
def test_a_name_that_stands_twice_is_refused(entries, twice):
    with pytest.raises(WeightsMismatch, match=f"twice: {twice}"):
        Mapping(entries)


def test_it_prints_an_entry_a_line():
    mapping = Mapping((one("fc.weight", "fc.kernel", Permute((1, 0))), one("fc.bias", "fc.bias")))
    assert str(mapping) == "fc.weight → fc.kernel  [permute(1, 0)]\nfc.bias → fc.bias"
