"""What `test_adapters_load.py` runs, each in a process of its own: a LLaMA's folders, and getting them onto a mesh.

``python adapter_sides.py write|plain|merged|beside|widened FOLDER MB DEVICES``: writes weights of bfloat16, the same in
eight bits with a scale for each block of 128 × 128, and a LoRA adapter of rank 16 of all projections; loads the weights
as they are, with the adapter merged or beside, or widened. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
from mesh_sides import MB, layers_of, model, resident, shapes

RANK = 16
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "merged": {"adapter": "lora"},
    "beside": {"adapter": "lora", "merge": False},
    "widened": {"widen": "bfloat16"},
}


def write(folder: Path, megabytes: int) -> dict[str, Any]:
    """The folders ``base``, ``eight`` and ``lora``."""
    import ml_dtypes
    import numpy as np

    from port.weights.checkpoint import Tensor, write_checkpoint

    random = np.random.default_rng(0)

    def tensor(name: str, shape: tuple[int, ...], dtype: Any) -> Tensor:
        return Tensor(name, shape, np.dtype(dtype), lambda: random.standard_normal(shape, np.float32).astype(dtype))

    told = shapes(layers_of(megabytes))
    base = [tensor(name, shape, ml_dtypes.bfloat16) for name, shape in told.items()]
    eight, lora = [], []
    for name, shape in told.items():
        if "_proj" not in name:
            eight.append(tensor(name, shape, ml_dtypes.bfloat16))
            continue
        blocks = tuple(-(-size // 128) for size in shape)
        eight += [tensor(name, shape, ml_dtypes.float8_e4m3fn), tensor(f"{name}_scale_inv", blocks, np.float32)]
        path = f"base_model.model.{name.removesuffix('.weight')}"
        lora.append(tensor(f"{path}.lora_A.weight", (RANK, shape[1]), np.float32))
        lora.append(tensor(f"{path}.lora_B.weight", (shape[0], RANK), np.float32))
    nbytes = sum(each.nbytes for each in base)
    for name, tensors in (("base", base), ("eight", eight)):
        write_checkpoint(folder / name, tensors, format="hf", max_shard_size=nbytes // 8 + 30 * MB)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 32, "target_modules": r".*_proj"}
    write_checkpoint(folder / "lora", lora, format="peft", config=json.dumps(config))
    return {"nbytes": nbytes, "largest": max(each.nbytes for each in base)}


def main() -> None:
    what, folder, megabytes, devices = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if what == "write":
        print(json.dumps(write(folder, megabytes)))
        return
    jax.config.update("jax_num_cpu_devices", devices)
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    from port.weights import load

    how = dict(WAYS[what])
    if "adapter" in how:
        how["adapter"] = folder / how["adapter"]
    mesh = jax.make_mesh((devices,), ("fsdp",), axis_types=(AxisType.Auto,))
    abstract = model(layers_of(megabytes))
    jax.block_until_ready(jax.device_put(1.0, NamedSharding(mesh, P())))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before, begin = resident(), time.perf_counter()
    sharding = {r".*(kernel|embedding)": P("fsdp"), ".*": P()}
    done = load(abstract, folder / ("eight" if what == "widened" else "base"), mesh=mesh, sharding=sharding, **how)
    assert done is not None
    beyond = resident()["VmHWM"] - before["VmRSS"] - done.nbytes_placed
    print(json.dumps({"seconds": time.perf_counter() - begin, "beyond": beyond, "held": done.nbytes_placed}))


if __name__ == "__main__":
    main()
