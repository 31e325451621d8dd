"""An adapter beside a stack of layers, which nnx.scan calls: one pair of factors a layer, each in its place."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from safetensors.numpy import load_file

import port
from port.cli import main
from port.errors import WeightsMismatch
from port.mapping import between, save_mapping
from tests.port.conftest import jit
from tests.port.weights import some_adapter
from tests.port.weights.factor_gradients import IDS, computed
from tests.port.weights.some_adapter import Adapted, Block, Torch, arrays_of, changed

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)

RENAME = {r"blocks\.\d+\.": "blocks."}
ALIKE: dict[str, Any] = {"rank_pattern": {}}


class Stacked(nnx.Module):
    """The model of `some_adapter`, its blocks as one with an axis more."""

    def __init__(self, *, rngs: nnx.Rngs, param_dtype: Any = jnp.float32) -> None:
        given: dict[str, Any] = {"rngs": rngs, "param_dtype": param_dtype}
        make = nnx.split_rngs(splits=2)(nnx.vmap(lambda rngs: Block(rngs=rngs, param_dtype=param_dtype)))
        self.tokens, self.blocks = nnx.Embed(11, 6, **given), make(rngs)
        self.head = nnx.Linear(6, 5, **given)

    def __call__(self, ids: jax.Array) -> jax.Array:
        run = nnx.scan(lambda block, x: block(x), in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        return self.head(run(self.blocks, self.tokens(ids)))


@pytest.fixture
def files(tmp_path, float64):
    """The base, an adapter whose layers are alike, and the adapted torch model."""
    base, adapter, module = some_adapter.written(tmp_path)
    torch.manual_seed(8)
    for block in module.blocks:
        block.up = Adapted(block.up.base_layer, 2, 1.5).double()
    return base, changed(adapter, arrays_of(module), **ALIKE), module


def loaded(base, adapter, **where):
    model = nnx.eval_shape(lambda: Stacked(rngs=nnx.Rngs(0), param_dtype=jnp.float64))
    port.load(model, base, adapter=adapter, merge=False, rename=RENAME, **where)
    return model


def compared(module, model):
    module.zero_grad()
    output = module(torch.from_numpy(IDS))
    output.square().sum().backward()
    got, gradients = computed(*nnx.split(model))
    worst = [np.abs(np.asarray(got) - output.detach().numpy()).max()]
    for name in ("up", "down"):
        for ours, theirs in (("lora_a", "lora_A"), ("lora_b", "lora_B")):
            stack = np.asarray(gradients.blocks[name][ours][...])
            for number in (0, 1):
                wanted = module.get_parameter(f"blocks.{number}.{name}.{theirs}.weight").grad.numpy()
                worst.append(np.abs(stack[number].T - wanted).max())
    return max(worst)


def test_outputs_and_gradients_are_the_adapted_model_s(files):
    base, adapter, module = files
    model = loaded(base, adapter)
    assert model.blocks.up.lora_a.shape == (2, 6, 2)
    assert compared(module, model) < 1e-11
    model.blocks.down.lora_a.set_value(model.blocks.down.lora_a[...][::-1])  # the layers in another order
    assert compared(module, model) > 1e-3


def test_onto_a_mesh(files):
    base, adapter, module = files
    mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    table = {r"blocks\..*(kernel|lora_a)": P(None, "fsdp"), r".*lora_b": P("fsdp"), ".*": P()}
    model = loaded(base, adapter, mesh=mesh, sharding=table)
    assert compared(module, model) < 1e-11
    assert model.blocks.up.lora_b[...].sharding.spec == P("fsdp")


def test_it_comes_back_bit_for_bit(files, tmp_path, monkeypatch):
    base, adapter, module = files
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    mapping = between(Torch(), nnx.eval_shape(lambda: Stacked(rngs=nnx.Rngs(0))), rename=RENAME)
    port.save_adapter(loaded(base, adapter), tmp_path / "like", like=adapter, mapping=mapping)
    port.save_adapter(loaded(base, adapter), tmp_path / "anew", saved=["head"], mapping=mapping)
    save_mapping(mapping, tmp_path / "m.toml")
    model = ["--flax", "tests.port.weights.test_lora_stacks:Stacked", "--mapping", "m.toml"]
    assert main(["convert", str(adapter), *model, "-o", "lora.safetensors"]) == 0
    assert load_file("lora.safetensors")["LoRAParam.blocks.up.lora_b"].shape == (2, 2, 10)
    assert main(["convert", "lora.safetensors", "--reverse", "--format", "peft", "-o", "back"]) == 0
    wanted = {name: array.tobytes() for name, array in arrays_of(module).items()}
    for folder in ("like", "anew", "back"):
        back = load_file(tmp_path / folder / "adapter_model.safetensors")
        assert {name: array.tobytes() for name, array in back.items()} == wanted, folder


def test_merged_it_needs_no_stack_s_leave(files):
    base, adapter, module = files
    model = Stacked(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    port.load(model, base, adapter=adapter, rename=RENAME)
    got = jit(lambda graph, state: nnx.merge(graph, state)(IDS), static_argnums=0)(*nnx.split(model))
    assert np.abs(np.asarray(got) - module(torch.from_numpy(IDS)).detach().numpy()).max() < 1e-12


def test_layers_that_are_adapted_differently(files):
    base, adapter, module = files
    arrays = arrays_of(module)
    alone = {name: array for name, array in arrays.items() if "blocks.1.down" not in name}
    other = changed(adapter, arrays, **ALIKE, alpha_pattern={r"blocks\.0\.up": 7})
    with pytest.raises(
        WeightsMismatch, match=re.escape("blocks.0.up, blocks.1.up → blocks.up.kernel: its layers have different")
    ):
        loaded(base, other)
    told = {**ALIKE, "target_modules": r".*up|blocks\.0\.down"}
    with pytest.raises(WeightsMismatch, match=r"blocks\.0\.down → blocks\.down\.kernel: only some of its layers"):
        loaded(base, changed(adapter, alone, **told))
    with pytest.raises(WeightsMismatch, match="one dropout would draw the same masks for all"):
        loaded(base, changed(adapter, arrays, **ALIKE, lora_dropout=0.5))
