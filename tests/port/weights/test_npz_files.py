"""numpy's archives: numpy reads what we write, we read what numpy writes, and nothing in them is unpickled."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from port.errors import BrokenWeights
from port.weights.npz_files import is_npz, open_npz, write_npz
from port.weights.tensors import Tensor, dtypes

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "conv.weight": RANDOM.normal(size=(3, 2, 5, 4)).astype(np.float32),
    "turned": RANDOM.normal(size=(3, 5)).T,
    "count": np.array(7),
    "flags": np.array([True, False]),
    "none": np.zeros((0, 3), np.float16),
    "complex": RANDOM.normal(size=(3, 2)).view(np.complex128),
}


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    write_npz(path, [Tensor(name, a.shape, a.dtype, lambda a=a: a) for name, a in arrays.items()])


def assert_holds(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open_npz(path) as checkpoint:
        assert list(checkpoint.tensors) == list(arrays)
        for name, array in arrays.items():
            assert (checkpoint.tensors[name].shape, checkpoint.tensors[name].dtype) == (array.shape, array.dtype)
            np.testing.assert_array_equal(checkpoint.read(name), array, strict=True)


def test_what_we_write_numpy_reads_and_we_do(tmp_path: Path) -> None:
    write(tmp_path / "w.npz", ARRAYS)
    assert is_npz(tmp_path / "w.npz")
    assert_holds(tmp_path / "w.npz", ARRAYS)
    with np.load(tmp_path / "w.npz", allow_pickle=False) as loaded:
        assert list(loaded) == list(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(loaded[name], array, strict=True)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_we_read(tmp_path: Path, save) -> None:
    arrays = ARRAYS | {"big": np.arange(3, dtype=">f4")}
    save(tmp_path / "w.npz", **arrays)
    assert_holds(tmp_path / "w.npz", arrays | {"big": np.arange(3, dtype=np.float32)})
    save(tmp_path / "slashes.npz", **{"params/dense/kernel": np.ones((2, 3))})
    assert_holds(tmp_path / "slashes.npz", {"params.dense.kernel": np.ones((2, 3))})


@pytest.mark.parametrize("name", [name for name in dtypes() if np.dtype(dtypes()[name]).isbuiltin != 1])
def test_a_dtype_without_a_name_in_numpy_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BrokenWeights, match=rf"a is {name}, .* cannot name: write float32 \(--dtype\)"):
        write(tmp_path / "w.npz", {"a": np.ones(3, dtypes()[name])})


def entry(content: bytes, name: str = "a.npy") -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def saved(array: np.ndarray) -> bytes:
    np.save(buffer := io.BytesIO(), array, allow_pickle=True)
    return buffer.getvalue()


class Touches:
    """Unpickled, it makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_what_is_no_array_of_numbers_is_refused_and_never_run(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    for content, reason in (
        (entry(saved(np.array([Touches(str(victim))], object))), "Python objects, which are never unpickled"),
        (entry(saved(np.ones(3, ml_dtypes.bfloat16))), "2 bytes of a dtype that numpy's files do not name"),
        (entry(saved(np.array(["text"]))), "can be read are"),
        (entry(saved(np.ones(3))[:-8]), "only 16 bytes"),
        (entry(b"\x93NUMPY\x07\x00"), "version"),
        (entry(b"not an array"), "cannot be read"),
        (entry(pickle.dumps(Touches(str(victim))), "a.pkl"), "not an array"),
        (entry(saved(np.ones(3)))[:40], "cannot be read"),
    ):
        (tmp_path / "w.npz").write_bytes(content)
        with pytest.raises(BrokenWeights, match=f"w.npz.*({reason})"):
            open_npz(tmp_path / "w.npz")
    assert not victim.exists()


def test_a_flipped_byte_is_found_out(tmp_path: Path) -> None:
    """Each entry has its sum in the archive."""
    write(tmp_path / "w.npz", {"a": np.arange(100.0)})
    content = bytearray((tmp_path / "w.npz").read_bytes())
    content[content.index(np.float64(50).tobytes()) + 3] ^= 1
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(BrokenWeights, match=r"w\.npz.* cannot be read.*Bad CRC"), open_npz(tmp_path / "w.npz") as bad:
        bad.read("a")
