"""Layers with parameters of their own kinds get logical names, and compute on 2 × 2 devices what they do on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import port
from port.nn import rules_on
from port.parity.collectives import collectives_of, unmeant
from port.translation import Translation

from .layer_nets import (
    VOCAB,
    Attention,
    Bags,
    Cells,
    CrossAttention,
    Encoder,
    EncoderDecoder,
    Norms,
    Pairs,
    Recurrent,
    Upsampler,
)

pytestmark = pytest.mark.sweep

EXACT = 1e-9
GATES, HIDDEN = ("gates",), ("hidden",)
IN_GROUPS = "transposed convolution in groups"
"""XLA gathers the activations of a convolution in groups, where its batch is divided: its collectives are not meant."""
OF_A_LAYER = {
    "self_attn.in_proj_weight": ("qkv", "embed"),
    "self_attn.out_proj.kernel": ("heads", "embed"),
    "linear1.kernel": ("embed", "mlp"),
    "linear1.bias": ("mlp",),
    "linear2.kernel": ("mlp", "embed"),
    "norm2.scale": ("embed",),
}
Net = tuple[Callable[[], torch.nn.Module], tuple[torch.Tensor, ...], dict[str, tuple[str | None, ...]]]


def ids() -> torch.Tensor:
    return torch.randint(0, VOCAB, (4, 6), generator=torch.Generator().manual_seed(1))


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def nets() -> dict[str, Net]:
    """Name → how to make it, its inputs, and the names that its parameters should get."""
    return {
        "transposed convolution": (
            Upsampler,
            (drawn(4, 3, 6, 6),),
            {"up.kernel": (None, None, "channels", "channels"), "up.bias": ("channels",)},
        ),
        IN_GROUPS: (
            partial(Upsampler, groups=4),
            (drawn(4, 3, 6, 6),),
            {"up.kernel": (None, None, None, "channels"), "up.bias": ("channels",)},
        ),
        "attention": (
            Attention,
            (ids(),),
            {
                "attention.in_proj_weight": ("qkv", "embed"),
                "attention.in_proj_bias": ("qkv",),
                "attention.out_proj.kernel": ("heads", "embed"),
                "attention.out_proj.bias": ("embed",),
            },
        ),
        "attention of three projections": (
            partial(CrossAttention, bias=False),
            (ids(), drawn(4, 5, 10), drawn(4, 5, 6)),
            {
                "attention.q_proj_weight": ("heads", "embed"),
                "attention.k_proj_weight": ("heads", None),
                "attention.v_proj_weight": ("heads", None),
                "attention.bias_k": (None, None, "heads"),
                "attention.bias_v": (None, None, "heads"),
                "attention.out_proj.kernel": ("heads", "embed"),
            },
        ),
        "LSTM of two directions": (
            partial(Recurrent, "LSTM", num_layers=2, bidirectional=True),
            (ids(),),
            {
                **{f"layers.weight_ih_l{layer}": ("gates", None) for layer in ("0", "1", "0_reverse", "1_reverse")},
                **{f"layers.weight_hh_l{layer}": ("gates", "hidden") for layer in ("0", "1", "0_reverse")},
                "layers.bias_ih_l1": GATES,
                "layers.bias_hh_l0": GATES,
                "head.kernel": ("hidden", "vocab"),
            },
        ),
        "LSTM with a projection": (
            partial(Recurrent, "LSTM", proj_size=8),
            (ids(),),
            {
                "layers.weight_ih_l0": ("gates", "embed"),
                "layers.weight_hh_l0": ("gates", "hidden"),
                "layers.weight_hr_l0": ("hidden", "hidden"),
            },
        ),
        "GRU": (
            partial(Recurrent, "GRU"),
            (ids(),),
            {"layers.weight_ih_l0": ("gates", "embed"), "layers.weight_hh_l0": ("gates", "hidden")},
        ),
        "RNN": (
            partial(Recurrent, "RNN"),
            (ids(),),
            {
                "layers.weight_ih_l0": ("hidden", "embed"),
                "layers.weight_hh_l0": ("hidden", "hidden"),
                "layers.bias_ih_l0": HIDDEN,
                "layers.bias_hh_l0": HIDDEN,
            },
        ),
        "cells": (
            Cells,
            (drawn(4, 3, 6),),
            {
                "lstm.weight_ih": ("gates", None),
                "lstm.weight_hh": ("gates", "embed"),
                "gru.weight_ih": ("gates", "embed"),
                "gru.bias_hh": GATES,
            },
        ),
        "bilinear forms": (
            Pairs,
            (ids(), drawn(4, 10)),
            {
                "form.kernel": ("embed", None, "vocab"),
                "form.bias": ("vocab",),
                "mixed.kernel": ("embed", None, None),
            },
        ),
        "encoder, norms last": (
            partial(Encoder, norm_first=False),
            (ids(),),
            {f"encoder.layers.{number}.{path}": names for number in range(2) for path, names in OF_A_LAYER.items()},
        ),
        "encoder, norms first": (
            partial(Encoder, norm_first=True),
            (ids(),),
            {f"encoder.layers.1.{path}": names for path, names in OF_A_LAYER.items()},
        ),
        "encoder and decoder": (
            EncoderDecoder,
            (ids(), ids().flip(1)[:, :5]),
            {
                **{f"transformer.encoder.layers.0.{path}": names for path, names in OF_A_LAYER.items()},
                **{f"transformer.decoder.layers.1.{path}": names for path, names in OF_A_LAYER.items()},
                "transformer.decoder.layers.1.multihead_attn.in_proj_weight": ("qkv", "embed"),
                "transformer.decoder.layers.0.norm3.bias": ("embed",),
                "transformer.encoder.norm.scale": ("embed",),
            },
        ),
        "bags of words": (
            Bags,
            (ids(),),
            {"bags.embedding": ("vocab", "embed"), "up.kernel": ("embed", "mlp"), "head.kernel": ("embed", "vocab")},
        ),
        "norms": (
            Norms,
            (drawn(4, 3, 6, 6),),
            {
                "batch.scale": ("channels",),
                "instance.bias": ("embed",),
                "layer.scale": (None, "embed"),
                "layer.bias": (None, "embed"),
                "square.scale": ("embed",),
            },
        ),
    }


@cache
def translated(name: str) -> Translation:
    torch.manual_seed(0)
    make, inputs, _ = nets()[name]
    return port.translate(make(), inputs, static=True, check=False, logical_axes=True)


def step(made: Translation, model: Any, arguments: Any) -> tuple[jax.Array, Any]:
    def loss(model: Any) -> tuple[jax.Array, jax.Array]:
        outputs = made.boundary.call(model, arguments)
        return jnp.sum(outputs * jnp.cos(jnp.arange(outputs.size)).reshape(outputs.shape)), outputs

    (_, outputs), gradients = nnx.value_and_grad(loss, has_aux=True)(model)
    return outputs, gradients


@pytest.fixture
def in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def mesh_of(*axes: str) -> jax.sharding.Mesh:
    return jax.make_mesh((2, 2), axes, axis_types=(AxisType.Auto,) * 2)


def parameters(model: Any) -> dict[str, Any]:
    return {".".join(map(str, path)): each for path, each in nnx.to_flat_state(nnx.state(model, nnx.Param))}


def farthest(one: tuple[jax.Array, Any], other: tuple[jax.Array, Any]) -> float:
    """The largest difference of outputs and gradients."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)


@pytest.mark.parametrize("name", nets())
def test_each_parameter_has_names(name: str) -> None:
    made, (_, _, expected) = translated(name), nets()[name]
    found = {path: each.get_metadata("out_sharding", None) for path, each in parameters(made.build()).items()}
    assert {path: found[path] for path in expected} == expected
    assert made.unnamed == ()
    assert None not in found.values()


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("name", nets())
def test_a_mesh_computes_what_one_device_does(name: str) -> None:
    made, (_, inputs, _) = translated(name), nets()[name]
    arguments = made.boundary.to_flax(tuple(each.double() if each.is_floating_point() else each for each in inputs), {})
    alone = made.build(param_dtype=jnp.float64)
    alone.eval()
    expected = nnx.jit(partial(step, made))(alone, arguments)
    assert expected[0].dtype == jnp.float64

    assert made.rules is not None
    is_divided = "tensor" in made.rules.values()
    batch = ("fsdp",) if is_divided else ("data", "fsdp")
    mesh = mesh_of("fsdp", "tensor") if is_divided else mesh_of("data", "fsdp")
    placed = made.build(mesh=mesh, param_dtype=jnp.float64)
    placed.eval()
    arguments = jax.device_put(arguments, NamedSharding(mesh, PartitionSpec(batch)))
    whole = [
        path
        for path, each in parameters(placed).items()
        if each.ndim > 1 and each.get_value().sharding.is_fully_replicated
    ]
    assert whole == []
    with rules_on(mesh, made.rules):
        jitted = nnx.jit(partial(step, made))
        compiled = jitted.lower(placed, arguments).compile().as_text()
        assert farthest(jitted(placed, arguments), expected) <= EXACT
        shapes = {path: each.shape for path, each in parameters(placed).items()}
        wrong = unmeant(collectives_of(compiled, mesh.shape), shapes, mesh.shape, batch)
        assert wrong == [] or name == IN_GROUPS

        # Two devices hold each other's parts of one parameter.
        path, wrong = max(parameters(placed).items(), key=lambda item: item[1].size)
        spec = wrong.get_value().sharding.spec
        axis = next(axis for axis, along in enumerate(spec) if along)
        rolled = np.roll(np.asarray(wrong.get_value()), wrong.shape[axis] // 2, axis)
        state = nnx.state(placed, nnx.Param)
        flat = [
            (key, each.replace(jax.device_put(rolled, each.get_value().sharding)))
            if ".".join(map(str, key)) == path
            else (key, each)
            for key, each in nnx.to_flat_state(state)
        ]
        nnx.update(placed, nnx.from_flat_state(flat))
        assert farthest(jitted(placed, arguments), expected) > 1000 * EXACT
