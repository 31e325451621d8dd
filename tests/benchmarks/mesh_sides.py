"""What `test_mesh_load.py` runs, each in a process of its own: the model, and both ways to get its weights onto a mesh.

``python mesh_sides.py write|place|load|convert FOLDER MB DEVICES``: writes a hub folder; reads its bytes and places
them, as they are; loads them with `port.load`; converts them to Orbax for the mesh, and back. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax

HIDDEN, INNER, VOCABULARY, HEADS = 2048, 5632, 32000, 16
MB = 10**6


def layers_of(megabytes: int) -> int:
    layer = 4 * HIDDEN**2 + 3 * HIDDEN * INNER
    return max(1, round((megabytes * MB / 2 - 2 * VOCABULARY * HIDDEN) / layer))


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """A LLaMA's tensors as `transformers` names them."""
    found = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "lm_head.weight": (VOCABULARY, HIDDEN)}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        found |= {f"{at}.self_attn.{name}_proj.weight": (HIDDEN, HIDDEN) for name in "qkvo"}
        found |= {f"{at}.mlp.{name}_proj.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        found[f"{at}.mlp.down_proj.weight"] = (HIDDEN, INNER)
        found |= {f"{at}.{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    return found | {"model.norm.weight": (HIDDEN,)}


def write(folder: Path, megabytes: int) -> dict[str, Any]:
    """A hub folder of eight shards, of random bfloat16."""
    import ml_dtypes
    import numpy as np

    from port.weights.checkpoint import Tensor, write_checkpoint

    random = np.random.default_rng(0)
    dtype = np.dtype(ml_dtypes.bfloat16)

    def tensor(name: str, shape: tuple[int, ...]) -> Tensor:
        return Tensor(
            name, shape, dtype, lambda: random.integers(0, 2**14, shape, np.uint16, endpoint=False).view(dtype)
        )

    tensors = [tensor(name, shape) for name, shape in shapes(layers_of(megabytes)).items()]
    nbytes = sum(each.nbytes for each in tensors)
    write_checkpoint(folder, tensors, format="safetensors", max_shard_size=nbytes // 8 + 30 * MB)
    return {"nbytes": nbytes, "largest": max(each.nbytes for each in tensors), "files": len(list(folder.iterdir()))}


def model(layers: int) -> Any:
    from flax import nnx

    class Attention(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            for name in "qkvo":
                setattr(self, f"{name}_proj", nnx.Linear(HIDDEN, HIDDEN, use_bias=False, rngs=rngs))

    class Inner(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.gate_proj = nnx.Linear(HIDDEN, INNER, use_bias=False, rngs=rngs)
            self.up_proj = nnx.Linear(HIDDEN, INNER, use_bias=False, rngs=rngs)
            self.down_proj = nnx.Linear(INNER, HIDDEN, use_bias=False, rngs=rngs)

    class Layer(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.self_attn, self.mlp = Attention(rngs), Inner(rngs)
            self.input_layernorm = nnx.RMSNorm(HIDDEN, rngs=rngs)
            self.post_attention_layernorm = nnx.RMSNorm(HIDDEN, rngs=rngs)

    class Body(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.embed_tokens = nnx.Embed(VOCABULARY, HIDDEN, rngs=rngs)
            self.layers = nnx.List([Layer(rngs) for _ in range(layers)])
            self.norm = nnx.RMSNorm(HIDDEN, rngs=rngs)

    class Llama(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.model, self.lm_head = Body(rngs), nnx.Linear(HIDDEN, VOCABULARY, use_bias=False, rngs=rngs)

    return nnx.eval_shape(lambda: Llama(nnx.Rngs(0)))


def place(folder: Path, sharding: Any) -> tuple[list[jax.Array], float]:
    """Read the files' bytes and place them, in the layout that they have: nothing is moved, nothing is checked.

    From a mapped file into memory on a boundary that XLA's CPU takes as it is, and each device's part put there by
    itself, without `jax.device_put`'s work for a sharding.

    Returns:
        the arrays, and the seconds that reading took.
    """
    import ml_dtypes
    import numpy as np

    from port.weights.box_files import aligned

    placed, reading = [], 0.0
    for path in sorted(folder.glob("*.safetensors")):
        mapped = np.memmap(path, np.uint8, "r")
        length = int.from_bytes(mapped[:8].tobytes(), "little")
        header = json.loads(mapped[8 : 8 + length].tobytes())
        header.pop("__metadata__", None)
        for name, told in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            first, last = (8 + length + offset for offset in told["data_offsets"])
            array = aligned(tuple(told["shape"]), np.dtype(ml_dtypes.bfloat16))
            begin = time.perf_counter()
            array.view(np.uint8).reshape(-1)[...] = mapped[first:last]
            reading += time.perf_counter() - begin
            named = sharding(name, array.shape)
            parts = [
                jax.device_put(array[index], device)
                for device, index in named.addressable_devices_indices_map(array.shape).items()
            ]
            placed.append(jax.block_until_ready(jax.make_array_from_single_device_arrays(array.shape, named, parts)))
    return placed, reading


def convert_there_and_back(folder: Path, abstract: Any, devices: int) -> dict[str, Any]:
    """To Orbax and back, with the peak of the process's own memory; every tensor is compared bit for bit."""
    import numpy as np

    from port.weights.checkpoint import open_checkpoint
    from port.weights.conversion import convert

    told: dict[str, Any] = {}
    orbax, back = folder.with_name("cut.orbax"), folder.with_name("back")
    (folder / "config.json").write_text("{}")
    for name, source, target, options in (
        ("to orbax", folder, orbax, {"flax": abstract, "mesh": f"fsdp={devices}"}),
        ("to hub", orbax, back, {"reverse": True, "format": "hf", "like": folder, "max_shard_size": 500 * MB}),
    ):
        before, peak, over = resident()["RssAnon"], [0], threading.Event()

        def look(peak: list[int] = peak, over: threading.Event = over) -> None:
            while not over.wait(0.005):
                peak[0] = max(peak[0], resident()["RssAnon"])

        thread = threading.Thread(target=look)
        thread.start()
        begin = time.perf_counter()
        convert(source, target, **options)
        told[name] = {"seconds": time.perf_counter() - begin}
        over.set()
        thread.join()
        told[name]["own memory"] = peak[0] - before
    with open_checkpoint(folder) as first, open_checkpoint(back) as second:
        assert set(first.tensors) == set(second.tensors)
        for name in first.tensors:
            assert np.array_equal(first.read(name).view(np.uint16), second.read(name).view(np.uint16)), name
    return told


def resident() -> dict[str, int]:
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(told[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM", "RssAnon")}


def main() -> None:
    what, folder, megabytes, devices = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if what == "write":
        print(json.dumps(write(folder, megabytes)))
        return
    jax.config.update("jax_num_cpu_devices", devices)
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    from port.weights import load

    if what == "convert":
        print(json.dumps(convert_there_and_back(folder, model(layers_of(megabytes)), devices)))
        return
    mesh = jax.make_mesh((devices,), ("fsdp",), axis_types=(AxisType.Auto,))
    axis = os.environ.get("PORT_BENCHMARK_AXIS", "0")

    def spec(path: str, shape: tuple[int, ...]) -> P:
        return P() if len(shape) < 2 else P("fsdp") if axis == "0" else P(None, "fsdp")

    abstract = model(layers_of(megabytes))
    jax.block_until_ready(jax.device_put(1.0, NamedSharding(mesh, P())))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before, begin = resident(), time.perf_counter()
    told: dict[str, Any] = {}
    if what == "place":
        kept, told["reading"] = place(folder, lambda name, shape: NamedSharding(mesh, spec(name, shape)))
        held = sum(shard.data.nbytes for array in kept for shard in array.addressable_shards)
    else:
        done = load(abstract, folder, mesh=mesh, sharding=spec)
        assert done is not None
        told, held = {"nbytes": done.nbytes, "nbytes_read": done.nbytes_read}, done.nbytes_placed
    seconds, after = time.perf_counter() - begin, resident()
    print(json.dumps(told | {"seconds": seconds, "beyond": after["VmHWM"] - before["VmRSS"] - held, "held": held}))


if __name__ == "__main__":
    main()
