"""Some tensors made of several: read when they are asked for, in parts where the file gives parts."""

from __future__ import annotations

import numpy as np

from port.mapping import Entry
from port.moves import Merge, Widen
from port.weights.made_tensors import made
from port.weights.sources import Source
from port.weights.tensors import TensorInfo

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "w": RANDOM.normal(size=(6, 4)),
    "a": RANDOM.normal(size=(2, 4)),
    "b": RANDOM.normal(size=(6, 2)),
    "q": RANDOM.integers(-127, 127, (3, 2)).astype(np.int8),
    "s": np.array([0.5, 2, 4], np.float32),
    "other": RANDOM.normal(size=3),
}
ENTRIES = {
    "w": Entry(("w", "a", "b"), ("w",), (Merge(2.0),)),
    "q": Entry(("q", "s"), ("q",), (Widen("float64", "int8", (1, 0), (3,)),)),
}


def source(read, boxes=True, **options):
    def whole(name):
        read.append(name)
        return ARRAYS[name]

    def box(name, part):
        read.append((name, *map(len, part)))
        return ARRAYS[name][tuple(slice(axis.start, axis.stop) for axis in part)].copy()

    infos = {name: TensorInfo(array.shape, array.dtype) for name, array in ARRAYS.items()}
    return Source(infos, whole, read_box=box if boxes else None, **options)


def test_each_is_made_when_it_is_asked_for():
    read = []
    result = made(source(read), ENTRIES, ["w", "q", "other"])
    assert list(result) == ["w", "q", "other"]
    assert result.tensors["q"] == TensorInfo((3, 2), np.dtype("float64"))
    assert read == []
    assert np.abs(result["w"] - (ARRAYS["w"] + 2 * ARRAYS["b"] @ ARRAYS["a"])).max() < 1e-14
    assert read == ["w", "a", "b"]
    assert np.array_equal(result["q"], ARRAYS["q"] * ARRAYS["s"][:, None].astype(float))
    assert result["other"] is ARRAYS["other"]


def test_a_part_is_of_parts():
    read = []
    result = made(source(read), ENTRIES, ["w", "q", "other"])
    assert result.reads_boxes
    part = result.box("w", (range(1, 3), range(2, 4)))
    assert np.abs(part - (ARRAYS["w"] + 2 * ARRAYS["b"] @ ARRAYS["a"])[1:3, 2:4]).max() < 1e-14
    assert read == [("w", 2, 2), ("a", 2, 2), ("b", 2, 2)]
    assert np.array_equal(result.box("other", (range(1, 3),)), ARRAYS["other"][1:3])
    assert not made(source(read, boxes=False), ENTRIES, ["w"]).reads_boxes


def test_of_two_names_of_one_tensor_one_is_made():
    result = made(source([], aliases={"a": "w", "b": "other"}), ENTRIES, ["w", "a", "b", "other"])
    assert result.aliases == {"b": "other"}
