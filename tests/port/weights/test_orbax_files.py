"""Orbax folders: each side reads what the other wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

from port.errors import BrokenWeights, UsageError
from port.weights import orbax_writing
from port.weights.checkpoint import Tensor, open_checkpoint
from port.weights.orbax_files import foreign_to_orbax, open_orbax
from port.weights.orbax_writing import write_orbax
from port.weights.tensors import dtypes

RANDOM = np.random.default_rng(0)
EVERY = {
    f"of.{name}.kernel": RANDOM.integers(0, 2 if name == "bool" else 128, 15 * dtype.itemsize, np.uint8)
    .view(dtype)
    .reshape(3, 5)
    for name, dtype in dtypes().items()
}


def tensors_of(arrays: dict[str, np.ndarray]) -> list[Tensor]:
    return [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in arrays.items()]


def assert_same(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open_orbax(path) as checkpoint:
        assert checkpoint.format == "orbax"
        assert set(checkpoint.tensors) == set(arrays)
        for name, array in arrays.items():
            read, info = checkpoint.read(name), checkpoint.tensors[name]
            assert (info.dtype, info.shape) == (read.dtype, read.shape) == (array.dtype, array.shape), name
            assert read.tobytes() == array.tobytes(), name


@pytest.mark.parametrize("chunk", [2**24, 300])
def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """In chunks that do not divide the first axis, too."""
    monkeypatch.setattr(orbax_writing, "CHUNK", chunk)
    arrays = EVERY | {"scalar": np.array(7, np.int64), "t": RANDOM.normal(size=(70, 66)).T}
    write_orbax(tmp_path / "w", tensors_of(arrays))
    assert_same(tmp_path / "w", arrays)


def test_we_read_what_orbax_writes(tmp_path: Path) -> None:
    tree = {
        "params": {"0": {"kernel": EVERY["of.bfloat16.kernel"]}, "list": [np.arange(3.0), {"x": np.arange(2)}]},
        "dotted.name": np.ones(2, np.float16),
        "jax": jax.numpy.arange(4, dtype=jax.numpy.int32),
        "step": 3,
        "rate": 0.5,
        "none": None,
        "empty": {},
    }
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "w", tree)
    expected = {
        "params.0.kernel": EVERY["of.bfloat16.kernel"],
        "params.list.0": np.arange(3.0),
        "params.list.1.x": np.arange(2),
        "dotted.name": np.ones(2, np.float16),
        "jax": np.arange(4, dtype=np.int32),
    }
    assert_same(tmp_path / "w", expected)
    assert not foreign_to_orbax(tmp_path / "w")
    assert {"step": "not an array: scalar", "rate": "not an array: scalar"}.items() <= open_orbax(
        tmp_path / "w"
    ).left_out.items()
    with open_checkpoint(tmp_path / "w", key="params") as checkpoint:
        assert list(checkpoint.tensors) == ["0.kernel", "list.0", "list.1.x"]
        np.testing.assert_array_equal(checkpoint.read("list.1.x"), [0, 1])


def test_the_folders_of_a_manager(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        for step in (3, 7):
            manager.save(step, args=ocp.args.StandardSave({"a": np.full(3, step)}))
        manager.wait_until_finished()
    assert_same(tmp_path / "run" / "7", {"a": np.full(3, 7)})
    assert not foreign_to_orbax(tmp_path / "run" / "7")
    (tmp_path / "run" / "7" / "notes").mkdir()
    assert foreign_to_orbax(tmp_path / "run" / "7") == ["notes"]
    with pytest.raises(UsageError, match=r"several steps: 3, 7\. Name one"):
        open_checkpoint(tmp_path / "run")
    with ocp.CheckpointManager(tmp_path / "parts") as manager:
        parts = ocp.args.Composite(
            params=ocp.args.StandardSave({"a": np.ones(3)}), other=ocp.args.StandardSave({"b": np.ones(2)})
        )
        manager.save(1, args=parts)
        manager.wait_until_finished()
    with pytest.raises(UsageError, match=r"several checkpoints: other, params\. Name one"):
        open_checkpoint(tmp_path / "parts" / "1")
    assert_same(tmp_path / "parts" / "1" / "params", {"a": np.ones(3)})


def test_folders_that_are_not_whole(tmp_path: Path) -> None:
    arrays = {"a.b": np.arange(5.0), "c": np.ones(3, ml_dtypes.bfloat16)}
    write_orbax(tmp_path / "whole", tensors_of(arrays))
    for number, wrong in enumerate(("_METADATA", "d", "manifest.ocdbt")):
        path = tmp_path / f"broken{number}"
        shutil.copytree(tmp_path / "whole", path)
        shutil.rmtree(path / wrong) if (path / wrong).is_dir() else (path / wrong).unlink()
        shutil.rmtree(path / "ocdbt.process_0", ignore_errors=True)
        with pytest.raises(BrokenWeights, match=str(path)), open_orbax(path) as checkpoint:
            for name in checkpoint.tensors:
                checkpoint.read(name)
    (tmp_path / "whole" / "_METADATA").write_text("{")
    with pytest.raises(BrokenWeights, match="whole is damaged: its file _METADATA is not complete JSON"):
        open_orbax(tmp_path / "whole")
