"""Trains a translated model on every mesh of up to eight virtual devices; a process of its own, prints JSON.

``python sharded_training.py LLaMA --depth 3 --scan``; a rule in JSON that is wrong, ``--rules '{"embed": "tensor"}'``.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import optax
import torch
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from language_nets import GPT, LLaMA

import port
from port.nn import rules_on
from port.parity.collectives import bytes_a_device, collectives_of, counted, unmeant

STEPS = 50
KINDS = {
    "data": lambda count: {"data": count},
    "fsdp": lambda count: {"fsdp": count},
    "tensor": lambda count: {"tensor": count},
    "fsdp+tensor": lambda count: {"fsdp": max(1, count // 2), "tensor": min(2, count)},
}


def step(model: Any, optimizer: Any, ids: jax.Array) -> jax.Array:
    def loss(model: Any) -> jax.Array:
        logits = model(ids[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def trained(made: Any, axes: dict[str, int] | None, rules: Any, steps: int) -> dict[str, Any]:
    """Losses of the steps, the collectives of one, and the bytes a device holds; without axes, on one device."""
    ids = jax.random.randint(jax.random.key(0), (8, 7), 0, 40)
    options = {"param_dtype": jnp.float64}
    if axes is None:
        model = made.build(**options)
        optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
        jitted = nnx.jit(step)
        return {"losses": [float(jitted(model, optimizer, ids)) for _ in range(steps)]}
    devices = jax.devices()[: prod(axes.values())]
    auto = (AxisType.Auto,) * len(axes)
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=auto, devices=devices)
    model = made.build(mesh=mesh, rules=rules, **options)
    ids = jax.device_put(ids, NamedSharding(mesh, PartitionSpec(tuple({"data", "fsdp"} & axes.keys()) or None)))
    with rules_on(mesh, made.rules, rules):
        optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
        parameters = nnx.state(model, nnx.Param)
        held = bytes_a_device((parameters, nnx.state(optimizer)))
        shapes = {str(path): each.shape for path, each in nnx.to_flat_state(parameters)}
        jitted = nnx.jit(step)
        found = collectives_of(jitted.lower(model, optimizer, ids).compile().as_text(), mesh.shape)
        losses = [float(jitted(model, optimizer, ids)) for _ in range(steps)]
        after = nnx.state(model, nnx.Param)
    batch = [axis for axis in axes if axis != "tensor"]
    return {
        "losses": losses,
        "collectives": {f"{kind} {','.join(along)}": count for (kind, along), count in counted(found).items()},
        "forward": sum("transpose(" not in each.op and "dot_general" in each.op for each in found),
        "unmeant": unmeant(found, shapes, mesh.shape, batch),
        "bytes": sorted(set(held.values())),
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
    depth = int(options[options.index("--depth") + 1]) if "--depth" in options else 2
    net: Any = partial({"GPT": GPT, "LLaMA": LLaMA}[name], depth=depth)
    ids = torch.randint(0, 40, (2, 6))
    made = port.translate(net(), ids, construct=net, check=False, scan="--scan" in options, logical_axes=True)
    rules = json.loads(options[options.index("--rules") + 1]) if "--rules" in options else None
    kinds = options[options.index("--kind") + 1 :][:1] if "--kind" in options else list(KINDS)
    counts = (4,) if "--kind" in options else (1, 2, 4, 8)
    run = partial(trained, made, rules=rules, steps=2 if "--kind" in options else STEPS)
    told = {f"{kind} {count}": run(KINDS[kind](count)) for kind in kinds for count in counts}
    print(json.dumps({"stacked": made.stacked, "one": run(None), "meshes": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
