"""Two processes of four devices each: each reads its half, and what one finds wrong stops both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from port.errors import BrokenWeights, WeightsMismatch
from port.weights import agreement
from port.weights.agreement import agree
from port.weights.checkpoint import write_checkpoint
from tests.port.weights.some_tensors import tensors_of

RANDOM = np.random.default_rng(5)
PROGRAM = """
import json, sys
import jax
address, number, folder, fault = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, 2, number)
import numpy as np
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P
import port

class Block(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(16, 64, rngs=rngs)
        self.down = nnx.Linear(64, 16, use_bias=False, rngs=rngs)

class Net(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(32, 16, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(3)])

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,))
model = nnx.eval_shape(lambda: Net(nnx.Rngs(0)))
table = {r".*(kernel|embedding)": P("fsdp"), ".*": P()}
if fault == "columns":
    table = {r".*(kernel|embedding)": P(None, "fsdp"), ".*": P()}
if fault == "table" and number == 1:
    table = {".*embedding": P(), ".*": P(None, "fsdp")}
told, lora = {}, {}
if "lora" in fault:
    adapter = folder + "-lora" + ("-1" if number and fault.endswith("other") else "")
    lora = {"adapter": adapter, "merge": fault.startswith("merged")}
try:
    source = folder + ("-1" if number and fault.startswith("folder") else "")
    done = port.load(model, source, mesh=mesh, sharding=table, **lora)
    told = {"read": done.nbytes_read, "nbytes": done.nbytes, "placed": done.nbytes_placed}
    total = jax.jit(lambda state: sum(abs(leaf).sum() for leaf in jax.tree.leaves(state)))(nnx.state(model))
    told["sum"] = float(total)
    told["shards"] = {
        ".".join(map(str, path)): {str(shard.index): np.asarray(shard.data).tobytes().hex()
                                   for shard in variable[...].addressable_shards}
        for path, variable in nnx.to_flat_state(nnx.state(model))
    }
except port.errors.PortError as error:
    told = {"error": type(error).__name__, "says": str(error)}
    told["untouched"] = all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(nnx.state(model)))
    told["untouched"] &= not jax.tree.leaves(nnx.state(model, nnx.LoRAParam))
print(json.dumps(told))
"""


def state() -> dict[str, np.ndarray]:
    shapes = {"embed.weight": (32, 16)}
    for block in range(3):
        shapes |= {
            f"blocks.{block}.up.weight": (64, 16),
            f"blocks.{block}.up.bias": (64,),
            f"blocks.{block}.down.weight": (16, 64),
        }
    return {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    write_checkpoint(folder, tensors_of(arrays), format="safetensors", max_shard_size=5000)
    return folder


def both(folder: Path, fault: str = "") -> list[dict]:
    """What the two processes tell."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, address, str(number), str(folder), fault],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | flags,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


@pytest.mark.sweep
@pytest.mark.parametrize("sharding", ["", "columns"])
def test_each_process_reads_its_half(tmp_path: Path, sharding: str) -> None:
    arrays = state()
    told = both(write(tmp_path / "hub", arrays), sharding)
    total = sum(array.nbytes for array in arrays.values())
    for each in told:
        assert each["nbytes"] == total
        assert each["read"] <= 0.6 * total
        assert each["sum"] == pytest.approx(sum(np.abs(a).sum(dtype=np.float64) for a in arrays.values()), rel=1e-5)
    assert sum(each["read"] for each in told) >= total
    kernel = arrays["blocks.1.up.weight"].T
    parts = told[0]["shards"]["blocks.1.up.kernel"] | told[1]["shards"]["blocks.1.up.kernel"]
    assert len(parts) == 8
    axis = 1 if sharding else 0
    wanted = [np.ascontiguousarray(part).tobytes().hex() for part in np.split(kernel, 8, axis)]
    assert sorted(parts.values()) == sorted(wanted)


@pytest.mark.sweep
def test_a_shard_that_one_process_finds_cut_off_stops_both(tmp_path: Path) -> None:
    arrays = state()
    write(tmp_path / "hub", arrays)
    broken = sorted(write(tmp_path / "hub-1", arrays).glob("*.safetensors"))[0]
    broken.write_bytes(broken.read_bytes()[:-8])
    for each in both(tmp_path / "hub", "folder"):
        assert each["error"] == "BrokenWeights"
        assert "process 1 of 2" in each["says"]
        assert broken.name in each["says"]
        assert "process 0" not in each["says"]
        assert each["untouched"]


@pytest.mark.sweep
def test_processes_that_see_different_folders(tmp_path: Path) -> None:
    arrays = state()
    write(tmp_path / "hub", arrays)
    write(tmp_path / "hub-1", {name: array.astype(np.float16) for name, array in arrays.items()})
    for each in both(tmp_path / "hub", "folder"):
        assert each["error"] == "WeightsMismatch"
        assert "process 1 sees other weights than process 0" in each["says"]
        assert each["untouched"]


@pytest.mark.sweep
def test_a_sharding_that_cannot_be_in_one_process(tmp_path: Path) -> None:
    for each in both(write(tmp_path / "hub", state()), "table"):
        assert each["error"] == "WeightsMismatch"
        assert "process 1 of 2" in each["says"]
        assert "is for 2 axes, but the tensor has 1" in each["says"]
        assert each["untouched"]


def adapter_of(folder: Path) -> dict[str, np.ndarray]:
    """An adapter of the first block, written beside the weights; its two factors."""
    arrays = {
        f"base_model.model.blocks.0.up.lora_{which}.weight": RANDOM.normal(size=shape).astype(np.float32)
        for which, shape in (("A", (2, 16)), ("B", (64, 2)))
    }
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "target_modules": ["0.up"]}
    write_checkpoint(folder, tensors_of(arrays), format="peft", config=json.dumps(config))
    return arrays


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["merged", "beside"])
def test_an_adapter_goes_onto_two_processes(tmp_path: Path, way: str) -> None:
    arrays = state()
    down, up = adapter_of(tmp_path / "hub-lora").values()
    told = both(write(tmp_path / "hub", arrays), f"{way}-lora")
    added = 1.5 * (up @ down if way == "merged" else 0)
    name = "blocks.0.up.kernel" if way == "merged" else "blocks.0.up.base_module.kernel"
    wanted = np.split((arrays["blocks.0.up.weight"] + added).T.astype(np.float32), 8)
    parts = {place: part for each in told for place, part in each["shards"][name].items()}
    assert len(parts) == 8
    for place, part in parts.items():
        begin = int(place.removeprefix("(slice(").partition(",")[0])
        got = np.frombuffer(bytes.fromhex(part), np.float32).reshape(2, 64)
        assert np.abs(got - wanted[begin // 2]).max() < 1e-5
    if way == "beside":
        assert all(set(each["shards"]["blocks.0.up.lora_a"].values()) == {down.T.tobytes().hex()} for each in told)


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["merged", "beside"])
def test_an_adapter_that_one_process_finds_broken_stops_both(tmp_path: Path, way: str) -> None:
    for folder in ("hub-lora", "hub-lora-1"):
        adapter_of(tmp_path / folder)
    (tmp_path / "hub-lora-1" / "adapter_config.json").write_text("{")
    for each in both(write(tmp_path / "hub", state()), f"{way}-lora-other"):
        assert each["error"] == "BrokenWeights"
        assert "process 1 of 2" in each["says"]
        assert "adapter_config.json cannot be read" in each["says"]
        assert each["untouched"]


def test_alone_its_own_error_is_raised() -> None:
    agree(None, "what it sees")
    with pytest.raises(KeyError):
        agree(KeyError("a fault of ours"), "")


def test_of_several_all_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    texts = iter([["", "BrokenWeights: a.safetensors: cut off"], ["KeyError: 3", ""], ["", ""], ["a", "b"]])
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(agreement, "_from_all", lambda text: next(texts))
    with pytest.raises(BrokenWeights, match=r"process 1 of 2: a\.safetensors: cut off"):
        agree(None, "a")
    with pytest.raises(BrokenWeights, match="process 0 of 2: KeyError: 3"):
        agree(None, "a")
    with pytest.raises(WeightsMismatch, match="process 1 sees other weights than process 0"):
        agree(None, "a")
