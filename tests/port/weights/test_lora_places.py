"""Where a model holds an adapter; what it is without; and the adapter put around its layers, and taken off."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.mapping import between
from port.mapping.nnx_guide import nnx_guide
from port.nn import LoRA
from port.weights.lora_places import Wrapping, guide_without, lora_places, put_around, take_off, without
from port.weights.nnx_variables import variables_of


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(4, 3, use_bias=False, rngs=rngs), nnx.Linear(3, 4, rngs=rngs)])
        self.named = nnx.data({"out": nnx.Linear(4, 3, rngs=rngs)})
        self.body = nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), jnp.tanh, nnx.Linear(4, 3, rngs=rngs))
        self.again = self.first

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.body(self.named["out"](x))


ALL = ("again", "layers.0", "layers.1", "named.out", "body.layers.0", "body.layers.2")


def wrapped(model, paths, **told):
    put_around(
        model, dict.fromkeys(paths, Wrapping(**({"rank": 2, "scaling": 1.5, "dtype": jnp.float32} | told))), None
    )
    return model


def drawn(model):
    for path, variable in nnx.to_flat_state(nnx.state(model, nnx.LoRAParam)):
        key = jax.random.key(len(str(path)))
        nnx.update(model, nnx.from_flat_state([(path, jax.random.normal(key, variable.shape))]))
    return model


def test_it_stands_wherever_the_layer_stood():
    model, bare = Net(nnx.Rngs(0)), Net(nnx.Rngs(0))
    drawn(wrapped(model, ALL))
    places = lora_places(model)
    assert set(places) == set(ALL)
    assert model.first is model.again
    assert places["layers.0"].factors == ("layers.0.lora_a", "layers.0.lora_b")
    assert (places["layers.0"].rank, places["layers.0"].scaling) == (2, 1.5)
    x = np.ones((2, 3), np.float32)
    assert np.abs(np.asarray(model(x) - bare(x))).max() > 0.1
    for path in ALL:
        layer = places[path].lora
        kernel = layer.base_module.kernel
        kernel[...] = kernel[...] + 1.5 * layer.lora_a[...] @ layer.lora_b[...]
    merged = np.asarray(model(x))
    take_off(model)
    assert not lora_places(model)
    assert set(variables_of(model)) == set(variables_of(bare))
    assert np.abs(np.asarray(model(x)) - merged).max() > 0.1  # it was added twice, and is once now


def test_without_it_the_model_tells_what_it_told_before():
    bare, model = nnx_guide(Net(nnx.Rngs(0))), wrapped(Net(nnx.Rngs(0)), ALL)
    seen = guide_without(model, lora_places(model))
    assert seen.leaves == bare.leaves
    assert between(None, seen) == between(None, bare)
    assert {layer.path: layer.twin_path for layer in seen.layers} == {
        layer.path: layer.twin_path for layer in bare.layers
    }


def test_flax_s_own_layers_with_factors():
    class Own(nnx.Module):
        def __init__(self, rngs):
            self.inside = nnx.LoRALinear(3, 4, lora_rank=2, rngs=rngs)
            self.around = nnx.LoRA(4, 2, 5, base_module=nnx.Linear(4, 5, rngs=rngs), rngs=rngs)
            self.scaled = LoRA(5, 3, 2, scaling=0.5, base_module=nnx.Linear(5, 2, rngs=rngs), rngs=rngs)

    model = Own(nnx.Rngs(0))
    places = lora_places(model)
    assert {path: (each.rank, each.scaling, each.base_path) for path, each in places.items()} == {
        "inside": (2, 1.0, "inside"),
        "around": (2, 1.0, "around.base_module"),
        "scaled": (3, 0.5, "scaled.base_module"),
    }
    assert places["inside"].factors == ("inside.lora.lora_a", "inside.lora.lora_b")
    mapping = between(None, guide_without(model, places))
    assert [entry.sources[0] for entry in mapping.entries] == [
        f"{name}.{kind}" for name in ("around", "inside", "scaled") for kind in ("bias", "weight")
    ]
    held = [path for path in variables_of(model) if "lora_" not in path]
    assert sorted(without(path, places) for path in held) == sorted(e.targets[0] for e in mapping.entries)
    assert [places["scaled"].within("scaled.kernel"), places["inside"].within("inside.kernel")] == [
        "scaled.base_module.kernel",
        "inside.kernel",
    ]


@pytest.mark.parametrize("rngs", [None, nnx.Rngs(5)])
def test_an_abstract_model_stays_abstract(rngs):
    model = nnx.eval_shape(lambda: Net(nnx.Rngs(0)))
    put_around(model, {"layers.1": Wrapping(3, 2.0, jnp.bfloat16, 0.1)}, rngs)
    lora = model.layers[1]
    assert isinstance(lora.lora_a.get_raw_value(), jax.ShapeDtypeStruct)
    assert (lora.lora_a.shape, lora.lora_b.shape, lora.lora_b.dtype) == ((3, 3), (3, 4), jnp.bfloat16)
    assert (lora.dropout.rate, lora.dropout.rngs is None) == (0.1, rngs is None)
