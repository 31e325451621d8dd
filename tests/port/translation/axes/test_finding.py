"""The names of axes, found in small language models, and said in their source."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import PartitionSpec

import port
from port.errors import UnknownChoice, UsageError, WeightsMismatch
from port.translation import Translation

from .image_nets import Patches, ResNet
from .language_nets import GPT, LLaMA, SharedKeys

pytestmark = pytest.mark.sweep

LLAMA = {
    "embed.embedding": ("vocab", "embed"),
    "layers.0.attention.q.kernel": ("embed", "heads"),
    "layers.0.attention.k.kernel": ("embed", "kv"),
    "layers.1.attention.v.kernel": ("embed", "kv"),
    "layers.1.attention.o.kernel": ("heads", "embed"),
    "layers.0.gate.kernel": ("embed", "mlp"),
    "layers.0.up.kernel": ("embed", "mlp"),
    "layers.1.down.kernel": ("mlp", "embed"),
    "layers.1.norm1.weight": ("embed",),
    "norm.weight": ("embed",),
    "head.kernel": ("embed", "vocab"),
}
GPTS = {
    "wte.embedding": ("vocab", "embed"),
    "wpe.embedding": ("position", "embed"),
    "h.qkv.kernel": ("layers", "embed", "qkv"),
    "h.qkv.bias": ("layers", "qkv"),
    "h.out.kernel": ("layers", "heads", "embed"),
    "h.mlp.layers.0.kernel": ("layers", "embed", "mlp"),
    "h.mlp.layers.0.bias": ("layers", "mlp"),
    "h.mlp.layers.2.kernel": ("layers", "mlp", "embed"),
    "h.ln_1.scale": ("layers", "embed"),
    "ln_f.bias": ("embed",),
}

SHARED_KEYS = {
    "embed.embedding": ("vocab", "embed"),  # of port.nn
    "blocks.0.q.kernel": ("embed", "heads"),
    "blocks.1.k.kernel": ("embed", "head_dim"),
    "blocks.1.v.kernel": ("embed", None),
    "blocks.0.up.kernel": ("embed", "mlp"),
}


def ids() -> torch.Tensor:
    return torch.arange(12).reshape(2, 6)


@cache
def translated(name: str) -> Translation:
    torch.manual_seed(0)
    net: Any = {"GPT": GPT, "LLaMA": LLaMA, "SharedKeys": SharedKeys}[name]
    options = {"scan": name == "GPT", "logical_axes": True, "sizes_limit": 0, "name": name.lower()}
    return port.translate(net(), ids(), construct=net, **options)


def names(model: nnx.Module) -> dict[str, Any]:
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {".".join(map(str, path)): variable.get_metadata("out_sharding", None) for path, variable in flat}


@pytest.mark.parametrize(("name", "expected"), [("LLaMA", LLAMA), ("GPT", GPTS), ("SharedKeys", SHARED_KEYS)])
def test_parameters_say_what_their_axes_are(name: str, expected: dict[str, tuple[str, ...]]) -> None:
    made = translated(name)
    assert made.proof is not None
    assert made.proof.agrees
    found = names(made.module)
    assert {path: found[path] for path in expected} == expected
    assert made.unnamed == ()
    assert None not in found.values()


def test_the_source_reads_as_a_person_writes_it() -> None:
    source = translated("LLaMA").source
    assert 'kernel_metadata=logical_axes("embed", "kv"),' in source
    assert 'self.weight = nnx.Param(jnp.ones((width,), param_dtype), **logical_axes("embed"))' in source
    assert 'x = divided(gathered(self.embed)(ids), "batch", "length", "embed")' in source
    assert 'return x + divided(self.down(nnx.silu(self.gate(y)) * self.up(y)), "batch", "length", "embed")' in source
    assert '    "mlp": "tensor",\n' in source


def test_heads_that_are_cut_from_one_projection_stay_whole() -> None:
    rules = translated("GPT").rules
    assert rules is not None
    assert (rules["qkv"], rules["heads"], rules["mlp"]) == (None, None, "tensor")
    source = translated("GPT").source
    assert "gathered(self.qkv)(" in source
    assert "gathered(self.out)(" in source
    assert "gathered(self.mlp" not in source


def test_convolutions_have_channels_but_for_what_the_model_is_given() -> None:
    made = port.translate(ResNet(), torch.randn(2, 3, 6, 6), static=True, check=False, logical_axes=True)
    assert (made.rules, made.unnamed) == ({"batch": ("data", "fsdp"), "channels": "fsdp", "classes": None}, ())
    found = names(made.module)
    assert found["stem.kernel"] == (None, None, None, "channels")
    assert found["blocks.1.conv2.kernel"] == (None, None, "channels", "channels")
    assert found["blocks.0.shortcut.bias"] == ("channels",)
    assert found["head.kernel"] == ("channels", "classes")


def test_the_patches_of_a_transformer_are_embedded_by_a_convolution() -> None:
    made = port.translate(Patches(), torch.randn(2, 3, 8, 8), static=True, check=False, logical_axes=True)
    found = names(made.module)
    assert found["patches.kernel"] == (None, None, None, "embed")
    assert found["up.kernel"] == ("embed", "mlp")


def test_a_model_is_built_onto_a_mesh_of_one_device_as_it_is_without(tmp_path: Path) -> None:
    made = translated("LLaMA")
    mesh = jax.make_mesh((1, 1), ("fsdp", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    placed = made.build(mesh=mesh)
    assert placed.layers[0].up.kernel.get_value().sharding.spec == PartitionSpec("fsdp", "tensor")
    made.save(tmp_path / "llama.safetensors")
    space: dict[str, Any] = {"__file__": str(tmp_path / "llama.py"), "__name__": "llama"}
    exec(compile(made.source, "llama.py", "exec"), space)
    loaded = space["load"](mesh=mesh, rules={"vocab": None})
    assert loaded.head.kernel.get_value().sharding.spec == PartitionSpec("fsdp", None)
    flat = nnx.to_flat_state(nnx.state(made.module, nnx.Param))
    for model in (placed, loaded):
        own = dict(nnx.to_flat_state(nnx.state(model, nnx.Param)))
        for path, variable in flat:
            np.testing.assert_array_equal(own[path].get_value(), variable.get_value())
    tokens = jnp.asarray(ids().numpy())
    np.testing.assert_allclose(placed(tokens), made.module(tokens), rtol=1e-6)


def test_what_cannot_be_is_said() -> None:
    made = translated("LLaMA")
    mesh = jax.make_mesh((1,), ("model",))
    with pytest.raises(UsageError, match="no rule divides anything along model of the mesh: rules name data, fsdp"):
        made.build(mesh=mesh)
    fsdp = jax.make_mesh((1,), ("fsdp",))
    with pytest.raises(UnknownChoice, match="mpl"):
        made.build(mesh=fsdp, rules={"mpl": "fsdp"})
    with pytest.raises(UnknownChoice, match="tensr"):
        made.build(mesh=fsdp, rules={"mlp": "tensr"})
    with pytest.raises(UsageError, match="rules need a mesh"):
        made.build(rules={"mlp": "tensor"})
    plain = port.translate(torch.nn.Linear(2, 3), torch.ones(1, 2), check=False)
    with pytest.raises(UsageError, match="logical_axes=True"):
        plain.build(mesh=fsdp)
    other = replace(made, values={**made.values, "norm.weight": np.ones(3)})
    with pytest.raises(WeightsMismatch, match=r"norm.weight has shape \(3,\), but \(64,\) in the model"):
        other.build(mesh=fsdp)
