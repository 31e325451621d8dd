"""What each device of a mesh gets of a tensor, and Orbax folders that are written so."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from port.errors import UsageError, WeightsMismatch
from port.weights import orbax_writing
from port.weights.checkpoint import open_checkpoint, write_checkpoint
from port.weights.conversion import convert
from port.weights.mesh_cut import Longest, MeshCut
from port.weights.mesh_plan import MeshPlan
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
SHAPES = {name: array.shape for name, array in ARRAYS.items()}
ONE = MeshCut({"fsdp": 4})
TABLE = {
    "long.*": P(("data", "fsdp"), None),
    "wide.*": Longest("fsdp", 2),
    "bias": ("data",),
    ".*": P(),
}
TWO = MeshCut({"data": 2, "fsdp": 2}, TABLE)
SPECS: dict[str, tuple[MeshCut, dict[str, P]]] = {
    "one axis": (
        ONE,
        {
            "wide.kernel": P(None, "fsdp"),
            "long.kernel": P("fsdp"),
            "odd.kernel": P(),
            "bias": P("fsdp"),
            "number": P(),
        },
    ),
    "two axes": (
        TWO,
        {
            "wide.kernel": P(None, "fsdp"),
            "long.kernel": P(("data", "fsdp"), None),
            "odd.kernel": P(),
            "bias": P("data"),
            "number": P(),
        },
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_the_rules_say_what_each_device_has(name: str) -> None:
    cut, specs = SPECS[name]
    plan = MeshPlan.of(cut, SHAPES, {})
    assert {key: sharding.spec for key, sharding in plan.shardings.items()} == specs
    assert plan.shard("long.kernel", (24, 10)) == (6, 10)
    assert plan.shard("wide.kernel", (6, 40)) == (6, 40 // cut.axes["fsdp"])


def test_rules_are_of_the_modules_paths() -> None:
    cut = MeshCut({"fsdp": 2}, {"kernel": P("fsdp"), "mean": P()})
    paths = {"params.kernel": "kernel", "batch_stats.mean": "mean"}
    plan = MeshPlan.of(cut, {"params.kernel": (4, 3), "batch_stats.mean": (3,)}, paths)
    assert plan.shardings["params.kernel"].spec == P("fsdp")
    with pytest.raises(WeightsMismatch, match=r"params.kernel matches no pattern"):
        MeshPlan.of(cut, {"params.kernel": (4, 3)}, {})


def test_all_that_cannot_lie_so_is_said_at_once() -> None:
    cut = MeshCut({"data": 2, "fsdp": 4}, {"odd.*": P("data"), "wide.*": P("tensor"), "none": P(), ".*": P()})
    with pytest.raises(WeightsMismatch) as caught:
        MeshPlan.of(cut, SHAPES, {})
    said = str(caught.value)
    assert "odd.kernel (7, 9): axis 0 of 7 is not divided by data of 2 devices" in said
    assert "wide.kernel: P('tensor',) names tensor, but the mesh has data, fsdp" in said
    assert "the pattern 'none' matches no tensor" in said


def test_what_is_not_cut_is_said() -> None:
    (remark,) = MeshPlan.of(ONE, SHAPES | {"short": (3,)}, {}).remarks()
    assert remark == "no axis of these is divided by fsdp of 4 devices, so each reads the whole: odd.kernel (7, 9)"
    assert MeshPlan.of(MeshCut({"fsdp": 1}), SHAPES, {}).remarks() == []
    (remark,) = MeshPlan.of(ONE, {f"w{number}": (3, 3) for number in range(9)}, {}).remarks()
    assert remark.endswith("w5 (3, 3) and 3 more")
    # What a person says to be whole is no surprise.
    assert MeshPlan.of(TWO, SHAPES, {}).remarks() == []
    assert len(MeshPlan.of(MeshCut({"fsdp": 4}, {".*": Longest("fsdp", 4)}), SHAPES, {}).remarks()) == 1


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
@pytest.mark.parametrize("kind", SPECS)
def test_no_chunk_is_of_two_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int) -> None:
    monkeypatch.setattr(orbax_writing, "CHUNK", limit)
    plan = MeshPlan.of(SPECS[kind][0], SHAPES, {})
    write_orbax(tmp_path / "w", tensors_of(ARRAYS), mesh=plan)
    for name, chunk in chunks(tmp_path / "w").items():
        for size, part, held in zip(ARRAYS[name].shape, plan.shard(name, ARRAYS[name].shape), chunk, strict=True):
            assert size == part or part % held == 0, name
        assert name == "number" or limit > 1000 or np.prod(chunk) < ARRAYS[name].size
    with open_checkpoint(tmp_path / "w") as checkpoint:
        for name, array in ARRAYS.items():
            assert checkpoint.read(name).tobytes() == array.tobytes()


def nested(leaves: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *above, last = name.split(".")
        node = tree
        for part in above:
            node = node.setdefault(part, {})
        node[last] = leaf
    return tree


def mesh_of(cut: MeshCut) -> jax.sharding.Mesh:
    sizes, names = tuple(cut.axes.values()), tuple(cut.axes)
    return jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))


@pytest.mark.parametrize("has_target", [True, False], ids=["onto a target", "as it is said there"])
@pytest.mark.parametrize("kind", SPECS)
def test_orbax_restores_it_onto_the_mesh(tmp_path: Path, kind: str, has_target: bool) -> None:
    cut, specs = SPECS[kind]
    write_orbax(tmp_path / "w", tensors_of(ARRAYS), mesh=MeshPlan.of(cut, SHAPES, {}))
    mesh = mesh_of(cut)
    target = {
        name: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=NamedSharding(mesh, specs[name]))
        for name, array in ARRAYS.items()
    }
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "w", nested(target) if has_target else None)
    for name, array in ARRAYS.items():
        found = restored
        for part in name.split("."):
            found = found[part]
        assert np.asarray(found).tobytes() == array.tobytes()
        assert found.sharding == NamedSharding(mesh, specs[name]), name


def test_the_file_of_shardings_is_as_orbax_writes_it(tmp_path: Path) -> None:
    """But for the devices: a file that is written without any names none."""
    cut, specs = SPECS["two axes"]
    write_orbax(tmp_path / "ours", tensors_of(ARRAYS), mesh=MeshPlan.of(cut, SHAPES, {}))
    mesh = mesh_of(cut)
    arrays = {name: jax.device_put(array, NamedSharding(mesh, specs[name])) for name, array in ARRAYS.items()}
    with ocp.StandardCheckpointer() as checkpointer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpointer.save(tmp_path / "theirs", nested(arrays))
    ours, theirs = (json.loads((tmp_path / side / "_sharding").read_text()) for side in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    for name, text in theirs.items():
        expected = json.loads(text)
        assert expected.pop("device_mesh")
        assert json.loads(ours[name]) == expected


def test_a_conversion_takes_a_table_as_a_load_does(tmp_path: Path) -> None:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.fc = nnx.Linear(6, 4, rngs=rngs)

    import torch

    torch.save({"fc.weight": torch.randn(4, 6), "fc.bias": torch.randn(4)}, tmp_path / "w.pt")
    texts = (".*kernel=fsdp,data", ".*=-")
    flax = nnx.eval_shape(lambda: Net(nnx.Rngs(0)))
    convert(tmp_path / "w.pt", tmp_path / "w.orbax", flax=flax, mesh="data=2,fsdp=2", sharding=texts)
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "w.orbax")
    assert restored["params"]["fc"]["kernel"].sharding.spec == P("fsdp", "data")
    assert restored["params"]["fc"]["bias"].sharding.is_fully_replicated
    for sharding in ({".*": P("data")}, P("data"), lambda path, shape: P("data")):
        with pytest.raises(WeightsMismatch, match=r"not divided by data of 3 devices"):
            convert(tmp_path / "w.pt", tmp_path / "no.orbax", flax=flax, mesh="data=3", sharding=sharding)
    assert not (tmp_path / "no.orbax").exists()


def test_a_mesh_is_for_orbax_and_a_sharding_for_a_mesh(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mesh needs format='orbax'"):
        plan = MeshPlan.of(ONE, SHAPES, {})
        write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), format="safetensors", mesh=plan)
    with pytest.raises(UsageError, match="pass the mesh too"):
        convert(tmp_path / "w.pt", tmp_path / "w.orbax", sharding={".*": P()})
    assert not list(tmp_path.iterdir())
