"""A box of an entry's targets: of the boxes that it needs, each read once."""

from __future__ import annotations

import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.mapping import Entry
from port.moves import Join, Permute, Tie
from port.weights.entry_boxes import EntryBoxes
from port.weights.sources import Source
from port.weights.tensors import TensorInfo

ARRAYS = {"a": np.arange(12.0).reshape(4, 3), "b": np.arange(6.0).reshape(2, 3), "c": np.arange(12.0).reshape(4, 3)}


def boxes_of(entry: Entry, arrays: dict[str, np.ndarray], *, whole: bool = False) -> tuple[EntryBoxes, list[str]]:
    """And the names that are read, as they are."""
    read: list[str] = []

    def read_box(name, box):
        read.append(name)
        return arrays[name][tuple(slice(axis.start, axis.stop) for axis in box)].copy()

    def read_whole(name):
        read.append(name)
        return arrays[name]

    infos = {name: TensorInfo(array.shape, array.dtype) for name, array in arrays.items()}
    source = Source(infos, read_whole, read_box=None if whole else read_box)
    return EntryBoxes(entry, source, {name: name for name in arrays}, source.shapes), read


JOINED = Entry(("a", "b"), ("x",), (Join(0, (4, 2)), Permute((1, 0))))


def test_what_is_not_needed_is_not_read():
    boxes, read = boxes_of(JOINED, ARRAYS)
    wanted = np.concatenate([ARRAYS["a"], ARRAYS["b"]]).T
    assert np.array_equal(boxes.target(0, (range(1, 3), range(1, 4))), wanted[1:3, 1:4])
    assert read == ["a"]
    assert boxes.nbytes_read == 3 * 2 * 8


def test_where_only_whole_tensors_are_read_it_is_once():
    boxes, read = boxes_of(JOINED, ARRAYS, whole=True)
    wanted = np.concatenate([ARRAYS["a"], ARRAYS["b"]]).T
    for rows in (range(1), range(1, 3)):
        assert np.array_equal(boxes.target(0, (rows, range(6))), wanted[rows.start : rows.stop])
    assert read == ["a", "b"]
    assert boxes.nbytes_read == ARRAYS["a"].nbytes + ARRAYS["b"].nbytes


def test_one_tensor_under_two_names_is_read_once():
    entry = Entry(("a", "c"), ("x",), (Tie(2),))
    boxes, read = boxes_of(entry, ARRAYS)
    boxes.names = {"a": "a", "c": "a"}
    assert np.array_equal(boxes.target(0, (range(2), range(3))), ARRAYS["a"][:2])
    assert read == ["a"]


def test_two_that_are_to_be_one_and_differ():
    entry = Entry(("a", "c"), ("x",), (Tie(2),))
    boxes, _ = boxes_of(entry, ARRAYS | {"c": ARRAYS["c"] + 1})
    with pytest.raises(WeightsMismatch, match=r"a, c → x .*the tensors differ"):
        boxes.target(0, (range(2), range(3)))
