"""The mapping of stacks: the layers' tensors are stacked, and other tensors stay."""

from __future__ import annotations

import numpy as np
import pytest

from port.mapping import TORCH_ONLY, Entry, Mapping
from port.moves import Permute, Split, Tie
from port.translation.artifact.stacked_mapping import stacked_arrays, stacked_mapping
from port.translation.structure.layer_stacks import LayerList
from port.translation.structure.scanned_calls import CannotScan

LAYERS = LayerList("layers", "layers", "layers", 3)
PARTLY = LayerList("s", "s", "s.layers", 4, before=1, after=1)


def entry(source: str, target: str, *moves: object, shape: tuple[int, ...] = (2, 3)) -> Entry:
    return Entry((source,), (target,), tuple(moves), "params", (shape,))  # type: ignore[arg-type]


def carried(mapping: Mapping) -> dict[str, np.ndarray]:
    """Numbers of their own in every tensor, carried over, which come back as they were."""
    found: dict[str, np.ndarray] = {}
    for number, each in enumerate(mapping.entries):
        assert each.shapes is not None
        arrays = tuple(np.arange(np.prod(s)).reshape(s) + 100 * number + 10 * i for i, s in enumerate(each.shapes))
        found.update(zip(each.targets, each(arrays), strict=True))
        for back, array in zip(each.inverse()(each(arrays)), arrays, strict=True):
            np.testing.assert_array_equal(back, array)
        assert each.target_shapes() == tuple(array.shape for array in each(arrays))
    return found


def test_layers_are_one_and_the_rest_stays() -> None:
    mapping = Mapping(
        (
            entry("head", "head", Permute((1, 0))),
            *(entry(f"layers.{i}.w", f"layers.{i}.kernel", Permute((1, 0))) for i in range(3)),
            Entry(("layers.0.count",), ("layers.0.count",), (), TORCH_ONLY, ((),), True),
        )
    )
    made = stacked_mapping(mapping, [LAYERS])
    assert [each.targets for each in made.entries] == [("head",), ("layers.kernel",), ("layers.0.count",)]
    assert made.entries[1].sources == ("layers.0.w", "layers.1.w", "layers.2.w")
    kernel = carried(made)["layers.kernel"]
    assert kernel.shape == (3, 3, 2)
    np.testing.assert_array_equal(kernel[1], np.arange(6).reshape(2, 3).T + 110)


def test_tensors_that_are_several_of_flax_s() -> None:
    mapping = Mapping(
        tuple(
            Entry((f"layers.{i}.qkv",), (f"layers.{i}.q", f"layers.{i}.k"), (Split(0, (1, 1)),), "params", ((2, 3),))
            for i in range(3)
        )
    )
    made = stacked_mapping(mapping, [LAYERS])
    assert len(made.entries) == 1 and made.entries[0].targets == ("layers.q", "layers.k")
    found = carried(made)
    np.testing.assert_array_equal(found["layers.k"][2], np.arange(6).reshape(2, 3)[1:] + 20)


def test_a_run_between_others_and_lists_inside_lists() -> None:
    mapping = Mapping(tuple(entry(f"s.{i}.w", f"s.layers.{i}.w") for i in range(4)))
    assert [each.targets for each in stacked_mapping(mapping, [PARTLY]).entries] == [("s.0.w",), ("s.1.w",), ("s.2.w",)]
    names = [f"a.{i}.b.{j}.w" for i in range(2) for j in range(3)]
    nested = Mapping(tuple(entry(name, name) for name in names))
    inner = [LayerList(f"a.{i}.b", f"a.{i}.b", f"a.{i}.b", 3) for i in range(2)]
    made = stacked_mapping(nested, [*inner, LayerList("a", "a", "a", 2)])
    assert [each.targets for each in made.entries] == [("a.b.w",)]
    assert carried(made)["a.b.w"].shape == (2, 3, 2, 3)


def test_arrays_without_a_name_in_torch_are_stacked_too() -> None:
    arrays = {f"s.layers.{i}.cos": np.full(2, i) for i in range(4)} | {"sin": np.zeros(1)}
    made = stacked_arrays(arrays, [PARTLY])
    assert {name: array.shape for name, array in made.items()} == {
        "sin": (1,),
        "s.0.cos": (2,),
        "s.1.cos": (2, 2),
        "s.2.cos": (2,),
    }
    assert made["s.1.cos"].tolist() == [[1, 1], [2, 2]] and made["s.2.cos"].tolist() == [3, 3]


def test_what_is_no_stack() -> None:
    shared = Entry(("layers.0.w", "head"), ("layers.0.w", "head"), (), "params", ((2,), (2,)))
    with pytest.raises(CannotScan, match="several layers share one tensor, or a layer and another module"):
        stacked_mapping(Mapping((shared,)), [LAYERS])
    few = Mapping(tuple(entry(f"layers.{i}.w", f"layers.{i}.w") for i in (0, 2)))
    with pytest.raises(CannotScan, match="layer 1 of layers has no w, unlike other layers"):
        stacked_mapping(few, [LAYERS])
    tied = Entry(("layers.0.w", "layers.0.v"), ("layers.0.w",), (Tie(2),), "params", ((2, 3), (2, 3)))
    unlike = Mapping((tied, *(entry(f"layers.{i}.w", f"layers.{i}.w") for i in (1, 2))))
    with pytest.raises(CannotScan, match="in different ways"):
        stacked_mapping(unlike, [LAYERS])
