"""One mapping and then another is what one after the other does, however their entries cross."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from port.errors import WeightsMismatch
from port.mapping import TORCH_ONLY, Entry, Mapping
from port.moves import Copy, Flip, Join, Move, Order, Permute, Split, Stack, Tie, Unstack

LOOSE = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
SHAPE = (4, 2)


@st.composite
def mappings(draw: st.DrawFn, names: dict[str, tuple[int, ...]], prefix: str) -> Mapping:
    """Entries that take these names in groups of any order, and split, join, stack, copy and reorder them."""
    left = draw(st.permutations(list(names)))
    entries: list[Entry] = []
    while left:
        count = draw(st.integers(1, min(3, len(left))))
        sources, left = tuple(left[:count]), left[count:]
        shapes = tuple(names[name] for name in sources)
        moves = draw(chains(shapes))
        entry = Entry(sources, (), moves, shapes=shapes if draw(st.booleans()) else None)
        given = shapes
        for move in moves:
            given = move.shapes(given)
        targets = tuple(f"{prefix}{len(entries)}.{place}" for place in range(len(given)))
        entries.append(replace(entry, targets=targets))
    return Mapping(tuple(entries))


@st.composite
def chains(draw: st.DrawFn, shapes: tuple[tuple[int, ...], ...]) -> tuple[Move, ...]:
    moves: list[Move] = []
    for _ in range(draw(st.integers(0, 3))):
        choices: list[Move] = [Order(tuple(draw(st.permutations(range(len(shapes))))))]
        if len(set(shapes)) == 1:
            choices.append(Permute(tuple(draw(st.permutations(range(len(shapes[0])))))))
            choices += [Stack(0, len(shapes)), Flip((0,))] if shapes[0] else [Stack(0, len(shapes))]
            if shapes[0]:
                choices.append(Join(0, tuple(shape[0] for shape in shapes)))
        if len(shapes) == 1 and shapes[0]:
            size = shapes[0][0]
            choices += [Split(0, (size // 2, size - size // 2)), Copy(2), *([Unstack(0, size)] if size else [])]
        move = draw(st.sampled_from(choices))
        moves.append(move)
        shapes = move.shapes(shapes)
    return tuple(moves)


def shapes_after(mapping: Mapping, arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in mapping(arrays).items()}


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return set(left) == set(right) and all(np.array_equal(left[name], right[name]) for name in left)


@LOOSE
@given(data=st.data(), count=st.integers(1, 6), seed=st.integers(0, 99))
def test_it_is_one_after_the_other(data, count, seed):
    random = np.random.default_rng(seed)
    arrays = {f"s{place}": random.normal(size=SHAPE) for place in range(count)}
    first = data.draw(mappings({name: array.shape for name, array in arrays.items()}, "m"))
    second = data.draw(mappings(shapes_after(first, arrays), "t"))
    both = first.then(second)
    wanted = second(first(arrays))
    assert same(both(arrays), wanted)
    assert same(both.inverse()(wanted), arrays)
    assert both.inverse().inverse() == both
    again = second.inverse().then(first.inverse())
    assert same(again(wanted), arrays)


@LOOSE
@given(data=st.data(), seed=st.integers(0, 99))
def test_three_in_a_row_may_be_taken_together_either_way(data, seed):
    arrays = {f"s{place}": np.random.default_rng(seed + place).normal(size=SHAPE) for place in range(3)}
    first = data.draw(mappings({name: array.shape for name, array in arrays.items()}, "m"))
    second = data.draw(mappings(shapes_after(first, arrays), "n"))
    third = data.draw(mappings(shapes_after(second, first(arrays)), "t"))
    assert same(first.then(second).then(third)(arrays), first.then(second.then(third))(arrays))


def test_an_entry_that_is_left_out_is_seen():
    """The planted fault of the two above: the second mapping without its last move."""
    first = Mapping((Entry(("a", "b"), ("m",), (Join(0, (4, 4)),)),))
    second = Mapping((Entry(("m",), ("x", "y"), (Split(0, (2, 6)), Order((1, 0)))),))
    faulty = Mapping((replace(second.entries[0], moves=second.entries[0].moves[:1]),))
    arrays = {"a": np.arange(4.0), "b": np.arange(4.0) + 9}
    assert same(first.then(second)(arrays), second(first(arrays)))
    assert not same(first.then(faulty)(arrays), second(first(arrays)))


def test_split_and_joined_the_same_way_come_to_one_entry_a_tensor():
    qkv = Mapping((Entry(("in.weight",), ("q", "k", "v"), (Split(0, (2, 2, 2)),)), Entry(("bias",), ("b",))))
    both = qkv.then(qkv.inverse())
    assert [(entry.sources, entry.targets) for entry in both.entries] == [
        (("in.weight",), ("in.weight",)),
        (("bias",), ("bias",)),
    ]


def test_one_name_of_a_tied_weight_is_still_enough():
    first = Mapping((Entry(("a", "b"), ("m",), (Tie(2),)), Entry(("c",), ("n",))))
    second = Mapping((Entry(("m", "n"), ("t",), (Join(0, (2, 2)),)),))
    both = first.then(second)
    arrays = {"b": np.arange(2.0), "c": np.arange(2.0) + 5}
    assert same(both(arrays), second(first(arrays)))
    with pytest.raises(WeightsMismatch, match="missing: a"):
        both({"c": np.zeros(2)})
    with pytest.raises(WeightsMismatch, match="differ"):
        both({**arrays, "a": np.ones(2)})


def test_names_that_only_one_of_them_has_are_refused():
    first = Mapping((Entry(("a",), ("b",)), Entry(("c",), ("d",))))
    second = Mapping((Entry(("b",), ("x",)), Entry(("e",), ("y",))))
    with pytest.raises(WeightsMismatch, match=r"(?s)only the first has d.*only the second has e"):
        first.then(second)


def test_what_is_kept_for_torch_stays_and_what_may_be_missing_is_left_out():
    kept = Entry(("n",), ("n",), collection=TORCH_ONLY, optional=True)
    first = Mapping((Entry(("a",), ("b",)), kept))
    second = Mapping((Entry(("b",), ("c",)), Entry(("count",), ("count",), optional=True)))
    both = first.then(second)
    assert both.entries == (Entry(("a",), ("c",)), kept)
    assert Mapping((Entry(("z",), ("b",)),)).then(first.inverse()).entries[1] == kept.inverse()


def test_the_kind_of_variable_is_told_by_whichever_speaks_of_flax():
    torchs = Mapping((Entry(("a",), ("b",)),))
    flaxs = Mapping((Entry(("b",), ("c",), collection="batch_stats"),))
    assert torchs.then(flaxs).entries[0].collection == "batch_stats"
    assert flaxs.inverse().then(torchs.inverse()).entries[0].collection == "batch_stats"


def test_it_is_optional_where_all_of_it_is():
    optional = Mapping((Entry(("a",), ("b",), optional=True),))
    needed = Mapping((Entry(("b",), ("c",)),))
    assert optional.then(optional.inverse()).entries[0].optional
    assert not optional.then(needed).entries[0].optional
