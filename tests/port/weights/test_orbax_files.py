"""Orbax folders: each side reads what the other wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import flax.nnx as nnx
import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import Tensor, open_checkpoint, write_checkpoint
from port.weights.orbax_files import open_orbax, write_orbax
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


def test_what_is_written_is_read(tmp_path: Path) -> None:
    arrays = EVERY | {"scalar": np.array(7, np.int64), "t": RANDOM.normal(size=(70, 66)).T}
    write_orbax(tmp_path / "w", tensors_of(arrays))
    assert_same(tmp_path / "w", arrays)


def test_orbax_reads_what_we_write_into_a_module(tmp_path: Path) -> None:
    """As flax's guide has it: a template out of the module, restored by StandardCheckpointer."""
    model = nnx.Sequential(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.BatchNorm(4, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(model)
    pure = nnx.to_pure_dict(state)
    arrays = {".".join(map(str, path)): RANDOM.normal(size=leaf.shape).astype(np.float32) for path, leaf in flat(pure)}
    assert "layers.0.kernel" in arrays
    write_checkpoint(tmp_path / "w", tensors_of(arrays), format="orbax")
    template = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), as_text(pure))
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "w", template)
    nnx.replace_by_pure_dict(state, nnx.statelib.restore_int_paths(restored))
    for path, leaf in flat(nnx.to_pure_dict(nnx.state(nnx.merge(graph, state)))):
        np.testing.assert_array_equal(leaf, arrays[".".join(map(str, path))])


def flat(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if not isinstance(tree, dict):
        return [(path, tree)]
    return [leaf for key, branch in tree.items() for leaf in flat(branch, (*path, key))]


def as_text(tree: Any) -> Any:
    return {str(key): as_text(branch) for key, branch in tree.items()} if isinstance(tree, dict) else tree


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
    assert {"step": "no array: scalar", "rate": "no array: scalar"}.items() <= open_orbax(
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


def test_what_orbax_does_not_save(tmp_path: Path) -> None:
    with pytest.raises(BrokenWeights, match="without elements, and such are: a, c"):
        write_orbax(tmp_path / "w", tensors_of({"a": np.zeros((0, 2)), "b": np.ones(2), "c": np.zeros(0)}))
    with pytest.raises(BrokenWeights, match="without arrays"):
        write_orbax(tmp_path / "w", [])
    with pytest.raises(UsageError, match="cannot both be nested"):
        write_orbax(tmp_path / "w", tensors_of({"a": np.ones(2), "a.b": np.ones(2)}))
    assert not (tmp_path / "w").exists()


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
    with pytest.raises(BrokenWeights, match="cannot be read as an orbax checkpoint"):
        open_orbax(tmp_path / "whole")
