"""A checkpoint onto a mesh: every bit where it belongs, each tensor once, and nothing where something is wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import port
from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.mapping import Entry, Mapping
from port.moves import Branch, EachBranch, Permute, Reshape, Split, Stack
from port.weights.box_files import copied
from port.weights.checkpoint import open_checkpoint, write_checkpoint
from port.weights.conversion import convert
from tests.port.weights.some_tensors import tensors_of

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(4, 8, (3, 3), rngs=rngs)
        self.linear = nnx.Linear(8, 12, rngs=rngs)
        self.norm = nnx.BatchNorm(12, rngs=rngs)


class Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8, 12)
        self.norm = torch.nn.BatchNorm1d(12)


def abstract() -> Net:
    return nnx.eval_shape(lambda: Net(nnx.Rngs(0)))


def last_axis(path: str, shape: tuple[int, ...]) -> P:
    return P(*(None,) * (len(shape) - 1), "fsdp")


FIRST = {"conv.kernel": P(None, None, None, "fsdp"), r"(linear|norm)\..*": P("fsdp"), ".*": P()}


@pytest.fixture
def mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((4,), ("fsdp",), axis_types=(AxisType.Auto,))


@pytest.fixture
def written() -> Torch:
    torch.manual_seed(3)
    module = Torch()
    for buffer in module.norm.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 2)
    return module


def expected(module: Torch) -> dict[str, np.ndarray]:
    """What `port.load` gives without a mesh."""
    net = Net(nnx.Rngs(1))
    port.load(net, module)
    return values(net)


def values(net: Net) -> dict[str, np.ndarray]:
    return {".".join(map(str, path)): np.asarray(v[...]) for path, v in nnx.to_flat_state(nnx.state(net))}


def files(module: Torch, folder: Path) -> dict[str, Path | dict[str, torch.Tensor]]:
    state = module.state_dict()
    port.save(module, folder / "w.safetensors")
    torch.save(state, folder / "w.pt")
    with open_checkpoint(folder / "w.safetensors") as checkpoint:
        arrays = {name: checkpoint.read(name).copy() for name in checkpoint.tensors}
    write_checkpoint(folder / "hub", tensors_of(arrays), format="safetensors", max_shard_size=600)
    assert len(list((folder / "hub").iterdir())) > 3
    convert(folder / "w.pt", folder / "w.orbax", flax=abstract())
    convert(folder / "w.pt", folder / "w.npz", flax=abstract())
    return {
        "safetensors": folder / "w.safetensors",
        "torch": folder / "w.pt",
        "hub": folder / "hub",
        "orbax": folder / "w.orbax",
        "npz": folder / "w.npz",
        "state dict": state,
    }


@pytest.mark.parametrize("sharding", [P(), last_axis, FIRST], ids=["everywhere", "last axis", "table"])
@pytest.mark.parametrize("kind", ["safetensors", "torch", "hub", "orbax", "npz", "state dict"])
def test_every_bit_where_it_belongs(tmp_path, mesh, written, kind, sharding):
    net = abstract()
    done = port.load(net, files(written, tmp_path)[kind], mesh=mesh, sharding=sharding)
    right = expected(written)
    assert set(right) == set(values(net)) == set(done.shardings)
    for path, variable in nnx.to_flat_state(nnx.state(net)):
        name = ".".join(path)
        array = variable[...]
        assert array.dtype == right[name].dtype
        assert array.sharding == done.shardings[name]
        for shard in array.addressable_shards:
            assert np.asarray(shard.data).tobytes() == right[name][shard.index].tobytes(), name
    assert done.nbytes_read == done.nbytes == sum(array.nbytes for array in right.values())
    assert net.conv.kernel[...].sharding.spec == (P() if sharding == P() else P(None, None, None, "fsdp"))


def test_the_file_can_go_when_it_is_loaded(tmp_path, mesh, written):
    """No array is a view of the file."""
    path = files(written, tmp_path)["safetensors"]
    net = abstract()
    port.load(net, path, mesh=mesh, sharding=P())
    with open(path, "r+b") as file:
        file.write(bytes(path.stat().st_size))
    right = expected(written)
    assert all(np.array_equal(array, right[name]) for name, array in values(net).items())


def test_the_callers_arrays_are_not_taken(mesh, written):
    # On a boundary from which XLA's CPU would take them as they are.
    state = {name: copied(tensor.numpy()) for name, tensor in written.state_dict().items()}
    net = abstract()
    port.load(net, state, mesh=mesh, sharding=P())
    for array in state.values():
        array[...] = 0
    right = expected(written)
    assert all(np.array_equal(array, right[name]) for name, array in values(net).items())


def test_a_step_may_reuse_the_memory(tmp_path, mesh, written):
    """On a CPU the devices' copies are one piece of memory: a step that is given it for its results must not mind."""
    net = abstract()
    port.load(net, files(written, tmp_path)["hub"], mesh=mesh, sharding=P())
    right = expected(written)
    graph, state = nnx.split(net)
    step = jax.jit(lambda state: jax.tree.map(lambda leaf: 2 * leaf, state), donate_argnums=0)
    for name, array in values(nnx.merge(graph, step(step(state)))).items():
        assert np.array_equal(array, 4 * right[name]), name


class Stacked(nnx.Module):
    """Three layers as one, for a scan; a fused projection in three."""

    def __init__(self) -> None:
        self.kernel = nnx.Param(jnp.zeros((4, 6, 8)))
        self.query, self.key = nnx.Param(jnp.zeros((6, 2, 4))), nnx.Param(jnp.zeros((6, 2, 4)))


STACKED = Mapping(
    (
        Entry(
            tuple(f"layers.{number}.weight" for number in range(4)),
            ("kernel",),
            (EachBranch((Branch(1, (Permute((1, 0)),), 1),) * 4), Stack(0, 4)),
        ),
        Entry(
            ("qk.weight",),
            ("query", "key"),
            (Split(0, (8, 8)), Permute((1, 0)), Reshape((6, 8), (6, 2, 4))),
        ),
    )
)


@pytest.fixture
def stacked(tmp_path) -> tuple[Path, dict[str, np.ndarray]]:
    """A file, and what the model gets of it."""
    random = np.random.default_rng(2)
    arrays = {f"layers.{number}.weight": random.normal(size=(8, 6)).astype(np.float32) for number in range(4)}
    arrays["qk.weight"] = random.normal(size=(16, 6)).astype(np.float32)
    write_checkpoint(tmp_path / "w.safetensors", tensors_of(arrays), format="safetensors")
    return tmp_path / "w.safetensors", {
        "kernel": np.stack([arrays[f"layers.{number}.weight"].T for number in range(4)]),
        "query": arrays["qk.weight"][:8].T.reshape(6, 2, 4),
        "key": arrays["qk.weight"][8:].T.reshape(6, 2, 4),
    }


BY_LAYER = {"kernel": P("fsdp"), ".*": P(None, None, "fsdp")}


@pytest.mark.parametrize("spec", [BY_LAYER, P()], ids=["cut", "everywhere"])
def test_through_stacks_and_splits(mesh, stacked, spec):
    path, wanted = stacked
    net = nnx.eval_shape(Stacked)
    done = port.load(net, path, mesh=mesh, sharding=spec, rename=STACKED)
    for name, right in wanted.items():
        for shard in getattr(net, name)[...].addressable_shards:
            assert np.array_equal(np.asarray(shard.data), right[shard.index]), name
    assert done.nbytes_read == done.nbytes == sum(array.nbytes for array in wanted.values())


@pytest.fixture
def half(monkeypatch) -> jax.sharding.Mesh:
    """As another process would see it: of a mesh of four devices two are addressable."""
    from port.weights import placing

    ours = set(jax.devices()[:2])
    entire = jax.sharding.NamedSharding.addressable_devices_indices_map

    def addressable(self, shape):
        return {device: index for device, index in entire(self, shape).items() if device in ours}

    monkeypatch.setattr(jax.sharding.NamedSharding, "addressable_devices_indices_map", addressable)
    monkeypatch.setattr(jax, "make_array_from_single_device_arrays", lambda shape, sharding, parts, dtype: parts)
    monkeypatch.setattr(placing.nnx, "update", lambda *_: None)
    return jax.make_mesh((4,), ("fsdp",), axis_types=(AxisType.Auto,))


def test_a_process_with_half_the_devices_reads_half(tmp_path, written, half):
    done = port.load(abstract(), files(written, tmp_path)["hub"], mesh=half, sharding=last_axis)
    assert done.nbytes_read == done.nbytes / 2
    assert done.nbytes_placed == done.nbytes / 2


def test_of_a_stack_the_layers_are_read_that_it_has(stacked, half):
    """A part of each head lies apart in the file: what is between the parts comes along."""
    path, wanted = stacked
    done = port.load(nnx.eval_shape(Stacked), path, mesh=half, sharding=BY_LAYER, rename=STACKED)
    assert done.nbytes_read == wanted["kernel"].nbytes / 2 + wanted["query"].nbytes + wanted["key"].nbytes
    assert done.nbytes_placed == done.nbytes / 2


def test_each_keeps_its_own_dtype_or_is_cast(tmp_path, mesh, written):
    written.linear.bfloat16()
    port.save(written, tmp_path / "w.safetensors")
    for dtype, linear, conv in ((None, jnp.bfloat16, jnp.float32), ("float16", jnp.float16, jnp.float16)):
        net = abstract()
        port.load(net, tmp_path / "w.safetensors", mesh=mesh, sharding=last_axis, dtype=dtype)
        assert net.linear.kernel[...].dtype == linear
        assert net.conv.kernel[...].dtype == conv
        wanted = written.linear.weight.detach().float().numpy().T.astype(linear)
        assert np.asarray(net.linear.kernel[...]).tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_what_jax_would_make_narrower_is_refused(tmp_path, mesh, written):
    port.save(written.double(), tmp_path / "w.safetensors")
    net = abstract()
    with pytest.raises(WeightsMismatch, match=r"JAX supports float64 only with .*jax_enable_x64.*conv\.kernel"):
        port.load(net, tmp_path / "w.safetensors", mesh=mesh)
    port.load(net, tmp_path / "w.safetensors", mesh=mesh, dtype="float32")
    assert net.linear.kernel[...].dtype == jnp.float32


def untouched(net: Net) -> bool:
    return all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(nnx.state(net)))


def test_one_error_names_all_that_is_wrong(tmp_path, mesh, written):
    state = written.state_dict()
    state["extra"] = state.pop("linear.weight")
    state["norm.bias"] = torch.zeros(5)
    net = abstract()
    with pytest.raises(WeightsMismatch) as refused:
        port.load(net, state, mesh=mesh, sharding={"conv.kernel": P("fsdp"), ".*": P()})
    for part in ("linear.weight", "extra", "norm.bias", "(3, 3, 4, 8)", "it would be by 3"):
        assert part in str(refused.value)
    assert untouched(net)


@pytest.mark.parametrize("cut_to", [0.9, 0.3])
def test_a_shard_that_is_cut_off(tmp_path, mesh, written, cut_to):
    folder = files(written, tmp_path)["hub"]
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[: int(shard.stat().st_size * cut_to)])
    net = abstract()
    with pytest.raises(BrokenWeights, match=shard.name):
        port.load(net, folder, mesh=mesh)
    assert untouched(net)


def test_an_index_that_names_a_file_that_is_not_there_and_a_tensor_in_two(tmp_path, mesh, written):
    folder = files(written, tmp_path)["hub"]
    first, second, *_ = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["conv.bias"] = "model-00009-of-00004.safetensors"
    index.write_text(json.dumps(content))
    second.write_bytes(first.read_bytes())
    net = abstract()
    with pytest.raises(BrokenWeights) as refused:
        port.load(net, folder, mesh=mesh)
    assert "model-00009-of-00004.safetensors: there is no such file" in str(refused.value)
    assert f"is in {first.name} and in {second.name}" in str(refused.value)
    assert untouched(net)


def test_it_is_for_nnx_modules(mesh, written):
    with pytest.raises(UsageError, match="for an nnx module"):
        port.load(written, {}, mesh=mesh)
    with pytest.raises(UsageError, match="dtype needs a mesh"):
        port.load(Net(nnx.Rngs(0)), written, dtype="bfloat16")
    with pytest.raises(UsageError, match="unknown dtype"):
        port.load(abstract(), written, mesh=mesh, dtype="bf16")
    with pytest.raises(UsageError, match="unknown dtype 3; there are"):
        port.load(abstract(), written, mesh=mesh, dtype=3)


@pytest.mark.parametrize("wrong", ["fsdp=8", 8, AbstractMesh((4,), ("fsdp",))], ids=["text", "number", "no devices"])
def test_a_mesh_is_one_of_devices(written, wrong):
    with pytest.raises(UsageError, match=r"mesh must be a jax\.sharding\.Mesh of devices, as jax\.make_mesh\(\("):
        port.load(abstract(), written, mesh=wrong)
