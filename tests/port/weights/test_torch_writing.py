"""What is written as torch.save writes it: torch reads it, with weights_only and mapped; so do we, bit for bit."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from port.errors import BrokenWeights
from port.weights import torch_writing
from port.weights.tensors import Tensor, dtypes
from port.weights.torch_arrays import as_torch
from port.weights.torch_files import open_torch
from port.weights.torch_writing import write_torch

from .some_tensors import some, tensors_of


@pytest.mark.parametrize("mapped", [False, True])
def test_every_dtype_and_shape(tmp_path: Path, mapped: bool) -> None:
    arrays = {f"layers.{name}.é": some(name, (3, 5, 2)) for name in dtypes()}
    arrays |= {
        "turned": some("float32", (3, 5)).T,
        "number": np.array(7, np.int64),
        "none": np.zeros((0, 3), np.float16),
        "last": np.zeros((4, 0), np.float64),
    }
    write_torch(tmp_path / "w.pt", tensors_of(arrays))
    loaded = torch.load(tmp_path / "w.pt", weights_only=True, mmap=mapped)
    assert list(loaded) == list(arrays)
    with open_torch(tmp_path / "w.pt") as checkpoint:
        for name, array in arrays.items():
            expected, tensor, read = as_torch(array), loaded[name], checkpoint.read(name)
            assert (tensor.dtype, tensor.shape, tensor.is_contiguous()) == (expected.dtype, expected.shape, True)
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            assert read.tobytes() == array.tobytes()
            if tensor.numel():
                assert torch.equal(tensor.reshape(-1).view(torch.uint8), expected.reshape(-1).view(torch.uint8))


def test_storages_begin_on_a_boundary_and_nothing_is_compressed(tmp_path: Path) -> None:
    write_torch(tmp_path / "w.pt", tensors_of({f"t{size}": some("float32", (size,)) for size in range(1, 40)}))
    data = (tmp_path / "w.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "w.pt") as archive:
        assert archive.testzip() is None
        for entry in archive.infolist():
            header = data[entry.header_offset : entry.header_offset + 30]
            begin = entry.header_offset + 30 + int.from_bytes(header[26:28], "little")
            begin += int.from_bytes(header[28:30], "little")
            assert (begin % 64, entry.compress_type) == (0, zipfile.ZIP_STORED)


def test_large_entries_have_wide_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those beyond 2 GiB, at a smaller limit."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    monkeypatch.setattr(torch_writing, "ZIP64_LIMIT", 1000)
    arrays = {"large": some("float32", (400,)), "small": some("float32", (4,))}
    write_torch(tmp_path / "w.pt", tensors_of(arrays))
    loaded = torch.load(tmp_path / "w.pt", weights_only=True, mmap=True)
    for name, array in arrays.items():
        assert loaded[name].numpy().tobytes() == array.tobytes()
        assert loaded[name].data_ptr() % 64 == 0


def test_a_tensor_at_a_time(tmp_path: Path) -> None:
    alive: list[str] = []

    def read(name: str) -> np.ndarray:
        alive.append(name)
        return np.full((1000,), len(alive), np.float32)

    tensors = [Tensor(name, (1000,), np.dtype(np.float32), lambda name=name: read(name)) for name in "abc"]
    write_torch(tmp_path / "w.pt", tensors)
    assert alive == ["a", "b", "c"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for name, array, reason in (
        ("a", np.array(["text"]), "those that can be written are"),
        ("a\ud800", np.ones(2), "no text in UTF-8"),
    ):
        with pytest.raises(BrokenWeights, match=reason):
            write_torch(tmp_path / "w.pt", tensors_of({name: array}))
