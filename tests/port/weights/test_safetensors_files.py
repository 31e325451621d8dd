"""Safetensors files, ours and the library's: each reads what the other wrote, bit for bit."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from port.errors import BrokenWeights, UsageError
from port.weights.safetensors_files import open_safetensors, write_safetensors
from port.weights.tensors import Tensor, dtypes

RANDOM = np.random.default_rng(0)
EVERY = {  # each dtype, with every bit pattern's worth of random bytes, in an odd number of elements
    f"of.{name}": RANDOM.integers(0, 2 if name == "bool" else 256, 15 * dtype.itemsize, np.uint8)
    .view(dtype)
    .reshape(3, 5)
    for name, dtype in dtypes().items()
    if name != "complex128"
}


def tensors_of(arrays: dict[str, np.ndarray]) -> list[Tensor]:
    return [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in arrays.items()]


def test_the_library_reads_what_we_write(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_safetensors(path, tensors_of(EVERY), lambda: {"format": "pt", "é": "ü"})
    entries = dict(safetensors.deserialize(path.read_bytes()))
    assert {name: bytes(entry["data"]) for name, entry in entries.items()} == {
        name: array.tobytes() for name, array in EVERY.items()
    }
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata() == {"format": "pt", "é": "ü"}
        for name in ("of.float32", "of.bfloat16", "of.int64"):
            assert file.get_tensor(name).dtype == EVERY[name].dtype
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert length % 8 == 0
    for name, entry in json.loads(path.read_bytes()[8 : 8 + length]).items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % EVERY[name].dtype.itemsize == 0  # each on its own boundary


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    written = {name: array for name, array in EVERY.items() if not name.endswith(("fnuz", "e8m0fnu"))}
    safetensors.numpy.save_file(written | {"scalar": np.array(7.5), "none": np.zeros((0, 3))}, path, {"a": "b"})
    with open_safetensors(path) as checkpoint:
        assert (checkpoint.format, checkpoint.metadata) == ("safetensors", {"a": "b"})
        assert set(checkpoint.tensors) == {*written, "scalar", "none"}
        for name, array in written.items():
            read = checkpoint.read(name)
            assert (
                (read.dtype, read.shape)
                == (array.dtype, array.shape)
                == (
                    checkpoint.tensors[name].dtype,
                    checkpoint.tensors[name].shape,
                )
            )
            assert read.tobytes() == array.tobytes()
        assert checkpoint.read("scalar") == 7.5
        assert checkpoint.read("none").shape == (0, 3)


def test_a_read_tensor_is_the_files_memory_and_outlives_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_safetensors(path, tensors_of({"a": np.arange(6.0).reshape(2, 3)}))
    with open_safetensors(path) as checkpoint:
        read = checkpoint.read("a")
    assert not read.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        read[0, 0] = 1
    np.testing.assert_array_equal(read, [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(UsageError, match="closed"):
        checkpoint.read("a")


@pytest.mark.parametrize("padding", range(8))
def test_tensors_off_their_boundary_are_read(tmp_path: Path, padding: int) -> None:
    header = b'{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}' + b" " * padding
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + np.array([1.5, -2.0]).tobytes())
    read = open_safetensors(path).read("a")
    assert read.flags.aligned
    assert read.tolist() == [1.5, -2.0]


def test_arrays_in_any_layout_are_written_in_c_order(tmp_path: Path) -> None:
    base = RANDOM.normal(size=(70, 130, 3)).astype(np.float32)
    arrays = {
        "transposed": base.T,
        "permuted": base.transpose(1, 2, 0),
        "stepped": base[::2, ::-3],
        "broadcast": np.broadcast_to(base[:, :1], base.shape),
        "swapped": base.astype(">f4"),
        "half": base.astype(ml_dtypes.bfloat16).T,
    }
    write_safetensors(tmp_path / "w", tensors_of(arrays))
    read = open_safetensors(tmp_path / "w")
    for name, array in arrays.items():
        np.testing.assert_array_equal(read.read(name), array, err_msg=name)
    assert read.read("swapped").dtype == np.float32


def test_tensors_are_read_one_at_a_time_in_the_order_of_the_file(tmp_path: Path) -> None:
    asked: list[str] = []

    def tensor(name: str, dtype: type) -> Tensor:
        return Tensor(name, (2,), np.dtype(dtype), lambda: (asked.append(name), np.zeros(2, dtype))[1])

    write_safetensors(tmp_path / "w", [tensor("z", np.float32), tensor("y", np.int8), tensor("x", np.float64)])
    assert asked == ["x", "z", "y"] == list(open_safetensors(tmp_path / "w").tensors)


def test_the_same_tensors_make_the_same_file_in_any_order(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a", tensors_of(EVERY))
    write_safetensors(tmp_path / "b", tensors_of(dict(reversed(EVERY.items()))))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)), np.zeros((2, 3), np.float32), np.zeros(6)])
def test_a_tensor_that_is_not_what_it_promised_is_an_error(tmp_path: Path, wrong: np.ndarray) -> None:
    with pytest.raises(BrokenWeights, match=r"a\.b was declared as float64 of shape \(2, 3\), but read as"):
        write_safetensors(tmp_path / "w", [Tensor("a.b", (2, 3), np.dtype(np.float64), lambda: wrong)])


def test_what_the_format_lacks_is_refused(tmp_path: Path) -> None:
    for array in (np.ones(2, np.complex128), np.array(["text"]), np.ones(2, np.longdouble)):
        with pytest.raises(BrokenWeights, match=r"a\.b is .*, which safetensors lacks"):
            write_safetensors(tmp_path / "w", tensors_of({"a.b": array}))
    with pytest.raises(UsageError, match="cannot be named __metadata__"):
        write_safetensors(tmp_path / "w", tensors_of({"__metadata__": np.ones(2)}))
    with pytest.raises(UsageError, match="no text"):
        write_safetensors(tmp_path / "w", tensors_of({"a\ud800": np.ones(2)}))


def test_a_file_that_is_not_there_or_not_whole_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with pytest.raises(BrokenWeights, match=f"{path} cannot be read.*No such file"):
        open_safetensors(path)
    write_safetensors(path, tensors_of({"a": np.arange(5.0)}))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BrokenWeights, match=str(path)):
            open_safetensors(path)
