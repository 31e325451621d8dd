"""An adapter kept beside the weights: the adapted model's function and gradients, trained alone; what does not fit."""

from __future__ import annotations

from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from safetensors.numpy import load_file, save_file

import port
from port.errors import UsageError, WeightsMismatch
from port.nn import LoRA
from port.weights.lora_places import lora_places
from port.weights.nnx_variables import variables_of
from tests.port.weights import some_adapter
from tests.port.weights.factor_gradients import IDS, computed
from tests.port.weights.some_adapter import FACTORS, Net, arrays_of, changed

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)


@pytest.fixture
def files(tmp_path, float64):
    return some_adapter.written(tmp_path)


def net(**given):
    return Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64, **given)


def compared(module, model):
    """The largest difference of the outputs, and of the gradients of both factors of every layer."""
    module.zero_grad()
    output = module(torch.from_numpy(IDS))
    output.square().sum().backward()
    got, gradients = computed(*nnx.split(model))
    flat = {".".join(map(str, path)): np.asarray(v[...]) for path, v in nnx.to_flat_state(gradients)}
    worst = {"output": np.abs(np.asarray(got) - output.detach().numpy()).max()}
    for path in FACTORS:
        for ours, theirs in (("lora_a", "lora_A"), ("lora_b", "lora_B")):
            wanted = module.get_parameter(f"{path}.{theirs}.weight").grad.numpy()
            worst[f"{path}.{ours}"] = np.abs(flat.pop(f"{path}.{ours}").T - wanted).max()
    assert not flat
    return worst


def test_outputs_and_gradients_are_the_adapted_model_s(files):
    base, adapter, module = files
    model = net()
    port.load(model, base, adapter=adapter, merge=False)
    assert {path: (each.rank, each.scaling) for path, each in lora_places(model).items()} == FACTORS
    assert max(compared(module, model).values()) < 1e-11


FAULTS = {
    "a scaling forgotten": lambda model: setattr(model.blocks[0].up, "scaling", 1.0),
    "two scalings swapped": lambda model: setattr(model.blocks[1].up, "scaling", 2.5),
    "a factor of another layer": lambda model: model.blocks[0].down.lora_a.set_value(model.blocks[1].down.lora_a[...]),
    "a factor upside down": lambda model: model.blocks[0].up.lora_b.set_value(model.blocks[0].up.lora_b[...][::-1]),
    "a head that stayed the model's": lambda model: model.head.bias.set_value(model.head.bias[...] - 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_planted_is_seen(files, fault):
    base, adapter, module = files
    model = net()
    port.load(model, base, adapter=adapter, merge=False)
    FAULTS[fault](model)
    assert compared(module, model)["output"] > 1e-3


TRAINED = {
    "the factors": (nnx.LoRAParam, ("lora_",)),
    "and what the adapter holds whole": (nnx.Any(nnx.LoRAParam, nnx.PathContains("head")), ("lora_", "head.")),
}


@pytest.mark.parametrize("what", TRAINED)
def test_steps_of_these_alone_are_torch_s(files, what):
    base, adapter, module = files
    trained, names = TRAINED[what]
    model = net()
    port.load(model, base, adapter=adapter, merge=False)
    fixed = {path: value for path, value in variables_of(model).items() if not any(name in path for name in names)}
    optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=trained)

    @nnx.jit
    def step(model, optimizer):
        wrt = nnx.DiffState(0, trained)
        optimizer.update(model, nnx.grad(lambda m: jnp.square(m(IDS)).sum(), argnums=wrt)(model))

    parameters = [value for name, value in module.named_parameters() if any(each in name for each in names)]
    theirs = torch.optim.AdamW(parameters, 1e-2, weight_decay=1e-4)
    for _ in range(5):
        step(model, optimizer)
        theirs.zero_grad()
        module(torch.from_numpy(IDS)).square().sum().backward()
        theirs.step()
    assert max(compared(module, model).values()) < 1e-9
    after = variables_of(model)
    assert all(np.array_equal(after[path], value) for path, value in fixed.items())


def test_a_model_s_own_places_are_filled(files):
    base, adapter, module = files
    model = net()
    given = {"rngs": nnx.Rngs(3), "param_dtype": jnp.float64}
    for path, (rank, scaling) in FACTORS.items():
        _, number, name = path.split(".")
        block, linear = model.blocks[int(number)], getattr(model.blocks[int(number)], name)
        sizes = linear.in_features, rank, linear.out_features
        setattr(block, name, nnx.data(LoRA(*sizes, scaling=scaling, base_module=linear, **given)))
    held = {path: place.lora for path, place in lora_places(model).items()}
    port.load(model, base, adapter=adapter, merge=False)
    assert {path: place.lora for path, place in lora_places(model).items()} == held
    assert max(compared(module, model).values()) < 1e-11


def test_flax_s_own_layer_has_no_scaling_and_says_so(files):
    base, adapter, module = files

    class Own(Net):
        def __init__(self, **given):
            super().__init__(**given)
            for block in self.blocks:
                block.down = nnx.LoRALinear(10, 6, use_bias=False, lora_rank=2, lora_param_dtype=jnp.float64, **given)

    model = Own(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    with pytest.raises(WeightsMismatch) as caught:
        port.load(model, base, adapter=adapter, merge=False)
    said = str(caught.value)
    assert "unexpected: the adapter of blocks.0.up, which it has none for" in said
    assert "blocks.1.down scales by 1 (nnx.LoRA has none; port.nn.LoRA has), its adapter by 2.5" in said
    arrays = {name: array for name, array in arrays_of(module).items() if ".up." not in name}
    ones = changed(adapter, arrays, alpha_pattern={}, lora_alpha=2, target_modules=["down"])
    port.load(model, base, adapter=ones, merge=False)
    for number, block in enumerate(module.blocks):
        block.down.scaling, block.up.scaling = 1.0, 0.0
        got = np.asarray(model.blocks[number].down.lora.lora_a[...])
        assert np.array_equal(got.T, block.down.lora_A.weight.detach().numpy())
    wanted = module(torch.from_numpy(IDS)).detach().numpy()
    assert np.abs(np.asarray(model(IDS)) - wanted).max() < 1e-12


def test_a_wrapper_s_prefix_is_no_part_of_the_names(files, tmp_path):
    base, adapter, module = files
    save_file({f"module.{name}": array for name, array in load_file(base).items()}, tmp_path / "ddp.safetensors")
    model = net()
    port.load(model, tmp_path / "ddp.safetensors", adapter=adapter, merge=False)
    assert max(compared(module, model).values()) < 1e-11


@pytest.mark.parametrize("abstract", [True, False])
def test_onto_a_mesh(files, abstract):
    base, adapter, module = files
    model = nnx.eval_shape(net) if abstract else net()
    mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    table = {r".*(kernel|lora_a|lora_b)": P("fsdp"), ".*": P()}
    done = port.load(model, base, adapter=adapter, merge=False, mesh=mesh, sharding=table)
    assert max(compared(module, model).values()) < 1e-11
    assert (
        done.nbytes_read
        == done.nbytes
        == done.nbytes_placed
        - sum(array.nbytes for path, array in variables_of(model).items() if done.shardings[path].spec == P())
    )
    assert model.blocks[0].up.lora_a[...].sharding.spec == P("fsdp")


def test_a_dropout_is_the_config_s(files):
    base, adapter, module = files
    other = changed(adapter, arrays_of(module), lora_dropout=0.25)
    model = net()
    port.load(model, base, adapter=other, merge=False, rngs=nnx.Rngs(1))
    assert model.blocks[0].up.dropout.rate == 0.25
    assert not np.array_equal(np.asarray(model(IDS)), np.asarray(model(IDS)))
    model.eval()
    assert max(compared(module, model).values()) < 1e-11


def unchanged(model, attempt, message, kind=WeightsMismatch):
    before = variables_of(model)
    with pytest.raises(kind, match=message):
        attempt()
    after = variables_of(model)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[path], after[path]) for path in before)
    assert not lora_places(model)


def test_what_does_not_fit_leaves_the_model_as_it_was(files, tmp_path):
    base, adapter, module = files
    model = net()
    mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])

    def loaded(folder, **where):
        return lambda: port.load(model, base, adapter=folder, merge=False, **where)

    other = {name.replace("blocks", "layers"): array for name, array in arrays_of(module).items()}
    other_model = changed(adapter, other, rank_pattern={"layers.1.up": 4})
    unchanged(model, loaded(other_model), "it may be another model's")
    unchanged(model, loaded(other_model, mesh=mesh), "it may be another model's")
    # The last axis of three devices: the mesh refuses, behind what has been put around.
    unchanged(model, loaded(adapter, mesh=mesh, sharding={"head.bias": P("fsdp"), ".*": P()}), "is not divided by")
    unchanged(model, loaded(adapter, dtype="float32"), "dtype needs a mesh", UsageError)
    tokens = {"base_model.model.tokens.lora_embedding_A": np.ones((2, 11))}
    tokens["base_model.model.tokens.lora_embedding_B"] = np.ones((6, 2))
    embedded = changed(adapter, arrays_of(module) | tokens, target_modules=["up", "down", "tokens"])
    unchanged(model, loaded(embedded), r"tokens → tokens.embedding: flax.nnx.nn.linear.Embed")


def test_a_layer_in_a_tuple_is_named(files):
    base, adapter, _ = files

    class Fixed(Net):
        def __init__(self, **given):
            super().__init__(**given)
            self.blocks = nnx.data(tuple(self.blocks))
            self.blocks[0].up = nnx.Linear(6, 10, **given)

    class Held(nnx.Module):
        def __init__(self, **given):
            self.blocks = nnx.data((nnx.Linear(3, 4, **given),))

    model = Fixed(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    port.load(model, base, adapter=adapter, merge=False)  # the blocks are in a tuple, their layers are not
    held = Held(rngs=nnx.Rngs(0))
    weights = {"blocks.0.weight": np.ones((4, 3)), "blocks.0.bias": np.ones(4)}
    factors = {"base_model.model.blocks.0.lora_A.weight": np.ones((2, 3))}
    factors["base_model.model.blocks.0.lora_B.weight"] = np.ones((4, 2))
    alone = changed(adapter, factors, rank_pattern={}, target_modules=["blocks.0"])
    unchanged(held, lambda: port.load(held, weights, adapter=alone, merge=False), r"as in a tuple: blocks\.0")


def test_beside_goes_with_an_adapter_and_an_nnx_module(files):
    base, adapter, _ = files
    with pytest.raises(UsageError, match="merge=False keeps an adapter beside an nnx module's weights"):
        port.load(net(), base, merge=False)
    with pytest.raises(UsageError, match="merge=False keeps an adapter beside"):
        port.load(some_adapter.Torch(), base, adapter=adapter, merge=False)
