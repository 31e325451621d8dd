"""Weights files: whole or not at all, and a file that cannot be read says which."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from port.errors import BrokenWeights
from port.weights import read_arrays, write_arrays

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "kernel": RANDOM.normal(size=(3, 4, 2)),
    "transposed": RANDOM.normal(size=(3, 5)).astype(np.float32).T,  # as a permuted kernel lies in memory
    "count": np.array(7, np.int64),
    "half": RANDOM.normal(size=4).astype(np.float16),
    "bfloat16": RANDOM.normal(size=(2, 2)).astype(ml_dtypes.bfloat16),
    "empty": np.zeros((0, 3), np.float32),
    "mask": np.array([True, False]),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_arrays(tmp_path / "new" / "folder" / "w.safetensors", ARRAYS)
    read = read_arrays(str(tmp_path / "new" / "folder" / "w.safetensors"))
    assert set(read) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        np.testing.assert_array_equal(read[name], array)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of ours that is there already."""
    write_arrays(tmp_path / "w.safetensors", {"old": np.arange(3.0)})
    return tmp_path / "w.safetensors"


def only_the_old_one_is_there(old: Path) -> bool:
    return os.listdir(old.parent) == [old.name] and read_arrays(old)["old"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError("no number")])
def test_a_failing_replace_leaves_what_was_there(old: Path, error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*paths: Any) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(BrokenWeights, match=rf"{old.name}: no number|{old.name}: No space left"):
        write_arrays(old, ARRAYS)
    assert only_the_old_one_is_there(old)


@pytest.mark.parametrize(("error", "raised"), [(OSError, BrokenWeights), (KeyboardInterrupt, KeyboardInterrupt)])
def test_a_write_that_ends_half_way_leaves_what_was_there(
    old: Path, error: type[BaseException], raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(array: np.ndarray) -> Iterator[bytes]:
        yield array.tobytes()[: array.nbytes // 2]
        raise error("half way")

    monkeypatch.setattr("port.weights.contiguous.pieces", half)
    with pytest.raises(raised):
        write_arrays(old, ARRAYS)
    assert only_the_old_one_is_there(old)


@pytest.mark.parametrize("array", [np.array(["text"]), np.ones(2, np.complex128)])
def test_values_that_the_format_lacks_leave_what_was_there(old: Path, array: np.ndarray) -> None:
    with pytest.raises(BrokenWeights, match=old.name):
        write_arrays(old, {"a": array})
    assert only_the_old_one_is_there(old)


def test_a_place_that_cannot_be_written_is_named(old: Path) -> None:
    with pytest.raises(BrokenWeights, match=f"{old.parent}: "):
        write_arrays(old.parent, ARRAYS)
    with pytest.raises(BrokenWeights, match=f"{old}/below: "):
        write_arrays(old / "below", ARRAYS)
    assert only_the_old_one_is_there(old)


@pytest.mark.skipif(os.name != "posix", reason="asks for POSIX permissions")
def test_the_file_has_the_permissions_of_any_new_file(tmp_path: Path, old: Path) -> None:
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(old.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def whole_file(tmp_path: Path) -> bytes:
    write_arrays(tmp_path / "whole", ARRAYS)
    return (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    "contents",
    [
        lambda whole: b"",
        lambda whole: whole[:5],
        lambda whole: whole[:50],
        lambda whole: whole[:-1],
        lambda whole: whole + b"more",
        lambda whole: b"PK\x03\x04" + bytes(500),  # what torch.save writes
        lambda whole: b'{"kernel": [1, 2, 3]}',
    ],
)
def test_a_file_that_is_none_or_not_whole_is_named(tmp_path: Path, contents: Any) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(contents(whole_file(tmp_path)))
    with pytest.raises(BrokenWeights, match=str(path)):
        read_arrays(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.safetensors", tmp_path):
        with pytest.raises(BrokenWeights, match=str(path)):
            read_arrays(path)
