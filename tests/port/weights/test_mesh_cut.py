"""How tensors are cut for the devices of a mesh, and Orbax folders that are written so."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from port.errors import UsageError
from port.weights import orbax_writing
from port.weights.checkpoint import open_checkpoint, write_checkpoint
from port.weights.mesh_cut import MeshCut, chunk_of, mesh_cut_of
from port.weights.orbax_writing import write_orbax
from tests.port.weights.some_tensors import some, tensors_of

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)

ARRAYS = {
    "wide.kernel": some("bfloat16", (6, 40)),
    "long.kernel": some("float32", (24, 10)),
    "odd.kernel": some("float32", (7, 9)),
    "bias": some("float32", (8,)),
    "number": np.array(3, np.int32),
}


@pytest.mark.parametrize(
    ("shape", "shard"),
    [((6, 40), (6, 10)), ((24, 10), (6, 10)), ((7, 9), (7, 9)), ((8, 8), (2, 8)), ((), ()), ((0, 4), (0, 1))],
)
def test_the_longest_axis_that_the_devices_divide(shape: tuple[int, ...], shard: tuple[int, ...]) -> None:
    assert MeshCut("fsdp", 4).shard(shape) == shard


@pytest.mark.parametrize(
    ("shard", "limit", "is_cut", "chunk"),
    [
        ((12, 10), 10**6, True, (12, 10)),
        ((12, 10), 200, True, (4, 10)),
        ((12, 10), 200, False, (5, 10)),
        ((7, 10), 200, True, (1, 10)),
        ((4001, 10), 40 * 100, True, (4001, 10)),
        ((4001, 10), 40 * 100, False, (100, 10)),
        ((0, 10), 100, True, (1, 10)),
        ((), 100, False, ()),
    ],
)
def test_a_shard_is_a_whole_number_of_chunks(
    shard: tuple[int, ...], limit: int, is_cut: bool, chunk: tuple[int, ...]
) -> None:
    assert chunk_of(shard, 4, limit, is_cut=is_cut) == chunk


def test_what_is_not_cut_is_said() -> None:
    shapes = {name: array.shape for name, array in ARRAYS.items()} | {"short": (3,)}
    (remark,) = MeshCut("fsdp", 4).remarks(shapes)
    assert remark == "no axis of these is divided by 4 devices, and each reads the whole: odd.kernel (7, 9)"
    assert MeshCut("fsdp", 1).remarks(shapes) == []
    (remark,) = MeshCut("fsdp", 4).remarks({f"w{number}": (3, 3) for number in range(9)})
    assert remark.endswith("w5 (3, 3) and 3 more")


@pytest.mark.parametrize("text", ["fsdp", "fsdp=0", "=8", "data=2,fsdp=4", "fsdp=-8"])
def test_what_is_no_mesh(text: str) -> None:
    with pytest.raises(UsageError, match=r"one axis and the number of its devices, as in fsdp=8"):
        mesh_cut_of(text)
    assert mesh_cut_of(" fsdp = 8 ") == MeshCut("fsdp", 8)


def chunks(folder: Path) -> dict[str, list[int]]:
    """Of each tensor, as tensorstore has it."""
    import tensorstore

    found = {}
    for name in ARRAYS:
        spec: dict[str, Any] = {
            "driver": "zarr",
            "kvstore": {"driver": "ocdbt", "base": f"file://{folder}/", "path": f"{name}/"},
        }
        found[name] = list(tensorstore.open(spec, open=True).result().chunk_layout.read_chunk.shape or ())
    return found


@pytest.mark.parametrize("limit", [2**23, 100])
def test_no_chunk_is_of_two_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(orbax_writing, "CHUNK", limit)
    cut = MeshCut("fsdp", 4)
    write_orbax(tmp_path / "w", tensors_of(ARRAYS), mesh=cut)
    for name, chunk in chunks(tmp_path / "w").items():
        axis, shard = cut.cut_axis(ARRAYS[name].shape), cut.shard(ARRAYS[name].shape)
        assert axis is None or shard[axis] % chunk[axis] == 0, name
        assert name == "number" or limit > 1000 or np.prod(chunk) < ARRAYS[name].size
    with open_checkpoint(tmp_path / "w") as checkpoint:
        for name, array in ARRAYS.items():
            assert checkpoint.read(name).tobytes() == array.tobytes()


def test_orbax_restores_it_onto_the_mesh(tmp_path: Path) -> None:
    cut = MeshCut("fsdp", 4)
    write_orbax(tmp_path / "w", tensors_of(ARRAYS), mesh=cut)
    mesh = jax.make_mesh((4,), ("fsdp",), axis_types=(AxisType.Auto,))
    target: dict[str, Any] = {}
    for name, array in ARRAYS.items():
        axis = cut.cut_axis(array.shape)
        spec = P(*("fsdp" if place == axis else None for place in range(array.ndim)))
        leaf = jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=NamedSharding(mesh, spec))
        *above, last = name.split(".")
        node = target
        for part in above:
            node = node.setdefault(part, {})
        node[last] = leaf
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "w", target)
    for name, array in ARRAYS.items():
        found = restored
        for part in name.split("."):
            found = found[part]
        assert np.asarray(found).tobytes() == array.tobytes()
        assert found.sharding.shard_shape(array.shape) == cut.shard(array.shape)


def test_a_mesh_is_for_orbax(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mesh goes with format='orbax'"):
        write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), format="safetensors", mesh=MeshCut("fsdp", 4))
    assert not list(tmp_path.iterdir())
