"""Trains a translated model on every mesh of up to eight virtual devices; a process of its own, prints JSON.

``python sharded_training.py LLaMA --depth 3 --scan``. On one mesh, ``--mesh '{"tensor": 4}'``, what is wrong: a rule,
``--rules '{"embed": "tensor"}'``; a source whose projections are left to the compiler, ``--loose``; rules that divide
within heads, ``--within-heads``.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import optax
import torch
from flax import nnx
from image_nets import ResNet
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from language_nets import GPT, FewKeys, LLaMA, SharedKeys

import port
from port.nn import rules_on
from port.parity.collectives import bytes_a_device, collectives_of, counted, unmeant

STEPS = 50
COUNTS = (1, 2, 4, 8)
MESHES = {
    **{f"{axis} {count}": {axis: count} for axis in ("data", "fsdp", "tensor") for count in COUNTS},
    **{f"fsdp+tensor {count}": {"fsdp": max(1, count // 2), "tensor": min(2, count)} for count in COUNTS},
    "fsdp+tensor 2×4": {"fsdp": 2, "tensor": 4},
}


def batch_of(net: type) -> tuple[jax.Array, jax.Array]:
    """What a model is given, and what it should say of it."""
    if net is ResNet:
        return jax.random.normal(jax.random.key(0), (8, 6, 6, 3), jnp.float64), jnp.arange(8) % 10
    ids = jax.random.randint(jax.random.key(0), (8, 7), 0, 40)
    return ids[:, :-1], ids[:, 1:]


def step(model: Any, optimizer: Any, given: jax.Array, targets: jax.Array) -> jax.Array:
    def loss(model: Any) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(given), targets).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def trained(made: Any, batch: Any, axes: dict[str, int] | None, rules: Any, steps: int) -> dict[str, Any]:
    """Losses of the steps, the collectives of one, and the bytes a device holds; without axes, on one device."""
    options = {"param_dtype": jnp.float64}
    if axes is None:
        model = made.build(**options)
        optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
        jitted = nnx.jit(step)
        return {"losses": [float(jitted(model, optimizer, *batch)) for _ in range(steps)]}
    devices = jax.devices()[: prod(axes.values())]
    auto = (AxisType.Auto,) * len(axes)
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=auto, devices=devices)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        model = made.build(mesh=mesh, rules=rules, **options)
    along = [axis for axis in axes if axis != "tensor"]
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec(tuple(along) or None)))
    with rules_on(mesh, made.rules, rules):
        optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
        parameters = nnx.state(model, nnx.Param)
        held = bytes_a_device((parameters, nnx.state(optimizer)))
        shapes = {str(path): each.shape for path, each in nnx.to_flat_state(parameters)}
        jitted = nnx.jit(step)
        found = collectives_of(jitted.lower(model, optimizer, *batch).compile().as_text(), mesh.shape)
        losses = [float(jitted(model, optimizer, *batch)) for _ in range(steps)]
        after = nnx.state(model, nnx.Param)
    return {
        "losses": losses,
        "collectives": {f"{kind} {','.join(along)}": count for (kind, along), count in counted(found).items()},
        "forward": sum("transpose(" not in each.op and "dot_general" in each.op for each in found),
        "unmeant": unmeant(found, shapes, mesh.shape, along),
        "bytes": sorted(set(held.values())),
        "warnings": [str(each.message) for each in warned if each.category is UserWarning],
        "stays": all(
            one.get_value().sharding.is_equivalent_to(other.get_value().sharding, one.get_value().ndim)
            for one, other in zip(
                jax.tree.leaves(parameters, is_leaf=_is_variable),
                jax.tree.leaves(after, is_leaf=_is_variable),
                strict=True,
            )
        ),
    }


def _is_variable(each: Any) -> bool:
    return isinstance(each, nnx.Variable)


def main(name: str, *options: str) -> None:
    jax.config.update("jax_enable_x64", True)
    torch.manual_seed(0)
    depth = {"depth": int(options[options.index("--depth") + 1])} if "--depth" in options else {}
    nets: dict[str, Any] = {each.__name__: each for each in (GPT, LLaMA, FewKeys, SharedKeys, ResNet)}
    batch = batch_of(nets[name])
    net = partial(nets[name], **depth)
    example = torch.randn(8, 3, 6, 6) if name == "ResNet" else torch.randint(0, 40, (2, 6))
    scan = "--scan" in options
    made = port.translate(net(), example, construct=net, check=False, scan=scan, logical_axes=True)
    given = {name: json.loads(text) for name, text in pairwise(options) if name in ("--rules", "--mesh")}
    if "--loose" in options:
        made = replace(made, source=re.sub(r"gathered\((self\.\w+)\)", r"\1", made.source))
    if "--within-heads" in options:
        made = replace(made, rules={name: along and "".join(along) for name, along in made.rules.items()})
    meshes = {"one": given["--mesh"]} if "--mesh" in given else MESHES
    run = partial(trained, made, batch, rules=given.get("--rules"), steps=2 if "--mesh" in given else STEPS)
    told = {name: run(axes=axes) for name, axes in meshes.items()}
    print(json.dumps({"stacked": made.stacked, "one": run(axes=None), "meshes": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
