"""`port.save_adapter`: the folder that was loaded, bit for bit; one anew; never one that says something else."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file

import port
from port.errors import UsageError, WeightsMismatch
from port.mapping import between, save_mapping
from port.weights.adapter_files import opened_adapter
from port.weights.lora_places import lora_places
from tests.port.weights import some_adapter
from tests.port.weights.some_adapter import FACTORS, Net, arrays_of, changed


@pytest.fixture
def loaded(tmp_path, float64):
    base, adapter, module = some_adapter.written(tmp_path)
    model = Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    port.load(model, base, adapter=adapter, merge=False)
    return base, adapter, module, model


def bits(folder):
    return {name: array.tobytes() for name, array in load_file(folder / "adapter_model.safetensors").items()}


def test_it_comes_back_bit_for_bit(loaded, tmp_path):
    _, adapter, _, model = loaded
    port.save_adapter(model, tmp_path / "back", like=adapter)
    assert bits(tmp_path / "back") == bits(adapter)
    assert (tmp_path / "back" / "adapter_config.json").read_text() == (adapter / "adapter_config.json").read_text()
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


def test_what_was_trained_is_what_is_written(loaded, tmp_path):
    base, adapter, _, model = loaded
    up = model.blocks[1].up
    up.lora_b[...] = up.lora_b[...] + 1
    model.head.bias[...] = model.head.bias[...] * 2
    port.save_adapter(model, tmp_path / "back", like=adapter)
    again = Net(rngs=nnx.Rngs(1), param_dtype=jnp.float64)
    port.load(again, base, adapter=tmp_path / "back", merge=False)
    ids = np.array([[1, 10, 0]])
    assert np.array_equal(np.asarray(again(ids)), np.asarray(model(ids)))
    different = {name for name, told in bits(tmp_path / "back").items() if told != bits(adapter)[name]}
    assert different == {"base_model.model.blocks.1.up.lora_B.weight", "base_model.model.head.bias"}


def test_a_config_anew_says_the_same(loaded, tmp_path):
    _, adapter, _, model = loaded
    port.save_adapter(model, tmp_path / "new", saved=["head"], base="someone/net")
    assert bits(tmp_path / "new") == bits(adapter)
    with opened_adapter(tmp_path / "new") as written:
        assert {each.path: (each.rank, each.scaling) for each in written.factors} == FACTORS
    told = json.loads((tmp_path / "new" / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == "someone/net"


def test_torch_s_names_may_be_a_mapping_s(loaded, tmp_path):
    base, adapter, _, _ = loaded

    class Other(nnx.Module):
        def __init__(self):
            self.net = Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)

    model, rename = Other(), {"^": "net."}
    port.load(model, base, adapter=adapter, merge=False, rename=rename)
    assert set(lora_places(model)) == {f"net.{path}" for path in FACTORS}
    save_mapping(between(some_adapter.Torch(), Other(), rename=rename), tmp_path / "m.toml")
    port.save_adapter(model, tmp_path / "back", like=adapter, mapping=tmp_path / "m.toml")
    assert bits(tmp_path / "back") == bits(adapter)
    with pytest.raises(WeightsMismatch, match=r"only the model adapts net\.blocks\.0\.up"):
        port.save_adapter(model, tmp_path / "other", like=adapter)


def test_another_adapter_s_config_is_not_taken(loaded, tmp_path):
    _, adapter, module, model = loaded
    arrays = {name: array for name, array in arrays_of(module).items() if "blocks.1.down" not in name}
    model.blocks[0].up.scaling = 2.0
    with pytest.raises(WeightsMismatch) as caught:
        port.save_adapter(model, tmp_path / "back", like=changed(adapter, arrays))
    assert "only the model adapts blocks.1.down" in str(caught.value)
    assert "blocks.0.up has rank 2 and scaling 2 in the model, rank 2 and scaling 1.5 in the folder" in str(
        caught.value
    )
    assert not (tmp_path / "back").exists()


def test_places_that_are_taken_and_models_without(loaded, tmp_path):
    _, adapter, _, model = loaded
    with pytest.raises(UsageError, match=r"has no nnx\.LoRA, and so no adapter"):
        port.save_adapter(Net(rngs=nnx.Rngs(0)), tmp_path / "back")
    with pytest.raises(UsageError, match="is there already"):
        port.save_adapter(model, adapter, like=adapter)
    before = bits(adapter)
    port.save_adapter(model, adapter, like=adapter, overwrite=True)
    assert bits(adapter) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="not one that the weights may replace"):
        port.save_adapter(model, tmp_path / "mine", like=adapter, overwrite=True)
    with pytest.raises(WeightsMismatch, match="has no body"):
        port.save_adapter(model, tmp_path / "back", saved=["body"])
    assert not (tmp_path / "back").exists()
