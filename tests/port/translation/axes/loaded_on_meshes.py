"""Writes a folder, and loads its model onto meshes of eight virtual devices; a process of its own, prints JSON.

``python loaded_on_meshes.py FOLDER --scan``: a folder that is not there. What is wrong: ``--rules '{"embed": null}'``,
and ``--other norm.weight``, a tensor that is written otherwise.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from jax.sharding import AxisType
from language_nets import LLaMA
from safetensors.numpy import load_file, save_file

from port.cli import main as port
from port.nn import rules_on
from port.scripts.imported_file import import_file

on_mesh: Any = importlib.import_module("port.nn.on_mesh")  # port.nn has a function of this name
MESHES = {"fsdp": {"fsdp": 8}, "fsdp+tensor": {"fsdp": 4, "tensor": 2}, "data+fsdp": {"data": 2, "fsdp": 4}}


def written(folder: Path, *options: str) -> Any:
    """The module of a folder that the command writes."""
    command = ["translate", "language_nets:LLaMA", "--input", "2,6:int64", "--logical-axes", "--sizes-limit", "0"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert port([*command, *options, "-o", str(folder)]) == 0
    return import_file(folder / "llama.py", "llama")


def changed(file: Path, name: str) -> None:
    """One number of a tensor, by a millionth."""
    arrays = {key: array.copy() for key, array in load_file(file).items()}
    arrays[name].flat[0] += 1e-6
    save_file(arrays, file)


def loaded(module: Any, axes: dict[str, int], rules: Any, ids: np.ndarray, expected: np.ndarray) -> dict[str, Any]:
    """What the devices of a mesh hold of a model, what was read of its file, and how far off its logits are."""
    read: list[float] = []
    reader = on_mesh._reader

    def counting(part: Any) -> Any:
        take = reader(part)

        def taken(index: Any) -> np.ndarray:
            array = take(index)
            read.append(array.size / prod(part.get_shape()))
            return array

        return taken

    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    on_mesh._reader = counting
    try:
        model = module.load(mesh=mesh, rules=rules, param_dtype=jnp.float64)
    finally:
        on_mesh._reader = reader
    arrays = {
        ".".join(map(str, path)): variable.get_value()
        for path, variable in nnx.to_flat_state(nnx.state(model, nnx.Param))
    }
    with rules_on(mesh, module.RULES, rules):
        logits = nnx.jit(lambda model, ids: model(ids))(model, jnp.asarray(ids))
    held: dict[int, int] = {}
    for array in arrays.values():
        for shard in array.addressable_shards:
            held[shard.device.id] = held.get(shard.device.id, 0) + shard.data.nbytes
    return {
        "bytes": sorted(held.values()),
        "of": sum(array.nbytes for array in arrays.values()),
        "whole": [
            path
            for path, array in arrays.items()
            if any(shard.data.shape == array.shape for shard in array.addressable_shards)
        ],
        "most read at once": max(read),
        "logits": float(np.abs(np.asarray(logits) - expected).max()),
    }


def main(folder: str, *options: str) -> None:
    jax.config.update("jax_enable_x64", True)
    module = written(Path(folder), *(["--scan"] if "--scan" in options else []))
    if "--other" in options:
        changed(Path(folder) / "llama.safetensors", options[options.index("--other") + 1])
    rules = json.loads(options[options.index("--rules") + 1]) if "--rules" in options else None
    torch.manual_seed(0)  # as the command builds it
    net = LLaMA().double().eval()
    ids = torch.randint(0, 40, (8, 7))
    expected = net(ids).detach().numpy()
    told = {name: loaded(module, axes, rules, ids.numpy(), expected) for name, axes in MESHES.items()}
    print(json.dumps({"is_stack": "stacked(" in (Path(folder) / "llama.py").read_text(), "meshes": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
