"""Orbax folders that we write: orbax reads them bit for bit, and few tensors are in memory at once."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import flax.nnx as nnx
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from port.errors import BrokenWeights, UsageError
from port.weights import orbax_writing
from port.weights.checkpoint import Tensor, write_checkpoint
from port.weights.orbax_writing import write_orbax
from port.weights.tensors import dtypes

from .some_tensors import RANDOM, some, tensors_of


@pytest.mark.parametrize("chunk", [2**24, 100, 7], ids=["one chunk", "rows together", "less than a row"])
def test_orbax_restores_every_dtype_and_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Without a template; in chunks that do not divide the first axis, too."""
    monkeypatch.setattr(orbax_writing, "CHUNK", chunk)
    monkeypatch.setattr(orbax_writing, "IN_FLIGHT", 2 * chunk)
    arrays = {f"of.{name}.kernel": some(name, (7, 5)) for name in dtypes()}
    arrays |= {
        "number": np.array(7, np.int64),
        "turned": some("float32", (3, 23)).T,
        "permuted": some("bfloat16", (2, 3, 5, 11)).transpose(3, 1, 0, 2),
        "swapped": RANDOM.normal(size=(13, 2))[::-1],
    }
    write_orbax(tmp_path / "w", tensors_of(arrays))
    for checkpointer in (ocp.StandardCheckpointer(), ocp.PyTreeCheckpointer()):
        with checkpointer:
            restored = checkpointer.restore(tmp_path / "w")
        found = {".".join(path): leaf for path, leaf in flat(restored)}
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            assert type(found[name]) is np.ndarray
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
            assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.sweep
def test_a_tensor_at_a_time(tmp_path: Path) -> None:
    """When one is read those before it are gone, but for those that wait for the disk."""
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0
    gc.collect()
    gc.freeze()  # what is there already need not be looked through at each tensor

    def read() -> np.ndarray:
        nonlocal most
        gc.collect()
        most = max(most, sum(array() is not None for array in alive))
        array = RANDOM.normal(size=(2**20,))
        alive.append(weakref.ref(array))
        return array

    count = 12
    tensors = [Tensor(f"t{place}", (2**20,), np.dtype(np.float64), read) for place in range(count)]
    write_orbax(tmp_path / "w", tensors)
    assert len(alive) == count
    assert most <= 1 + orbax_writing.IN_FLIGHT // tensors[0].nbytes < count - 1


def test_an_error_of_a_tensor_comes_as_it_is(tmp_path: Path) -> None:
    """And leaves nothing."""

    def fail() -> np.ndarray:
        raise BrokenWeights("the disk it is on was pulled")

    tensors = [*tensors_of({"a": np.ones(3)}), Tensor("b", (3,), np.dtype(np.float64), fail)]
    with pytest.raises(BrokenWeights, match="was pulled"):
        write_checkpoint(tmp_path / "w", tensors, format="orbax")
    tensors = [Tensor("c", (3,), np.dtype(np.float64), lambda: np.ones(4))]
    with pytest.raises(BrokenWeights, match=r"c was declared as float64 of shape \(3,\), but read as .* shape \(4,\)"):
        write_checkpoint(tmp_path / "w", tensors, format="orbax")
    assert list(tmp_path.iterdir()) == []


def large(name: str) -> Tensor:
    array = RANDOM.normal(size=(512, 1024))  # 4 MB
    return Tensor(name, array.shape, array.dtype, lambda: array)


def test_a_full_disk_is_an_error_of_ours_and_leaves_nothing(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        with pytest.raises(BrokenWeights, match=r"the weights cannot be written to .*/w: File too large$"):
            write_checkpoint(tmp_path / "w", [large("a"), large("b")], format="orbax")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    write_checkpoint(tmp_path / "w", [large("a"), large("b")], format="orbax")


@pytest.mark.parametrize("chunk", [2**24, 2**19])
def test_an_interruption_leaves_nothing_while_writes_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(orbax_writing, "CHUNK", chunk)

    def interrupt() -> np.ndarray:
        raise KeyboardInterrupt

    tensors = [large("a"), large("b"), Tensor("c", (3,), np.dtype(np.float64), interrupt)]
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(tmp_path / "w", tensors, format="orbax")
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_is_in_the_custom_metadata(tmp_path: Path) -> None:
    """As it is when the tensors have been written."""
    told = {"when": "bef."}

    def read() -> np.ndarray:
        told["when"] = "then"
        return np.ones(3)

    write_orbax(tmp_path / "w", [Tensor("a", (3,), np.dtype(np.float64), read)], lambda: dict(told))
    with ocp.PyTreeCheckpointer() as checkpointer:
        assert checkpointer.metadata(tmp_path / "w").custom_metadata == {"when": "then"}


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


def test_what_orbax_does_not_save(tmp_path: Path) -> None:
    with pytest.raises(BrokenWeights, match="empty arrays, such as a, c"):
        write_orbax(tmp_path / "w", tensors_of({"a": np.zeros((0, 2)), "b": np.ones(2), "c": np.zeros(0)}))
    with pytest.raises(BrokenWeights, match="without arrays"):
        write_orbax(tmp_path / "w", [])
    with pytest.raises(UsageError, match="cannot both be nested"):
        write_orbax(tmp_path / "w", tensors_of({"a": np.ones(2), "a.b": np.ones(2)}))
    assert not (tmp_path / "w").exists()
