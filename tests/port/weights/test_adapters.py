"""An adapter merged into a model's weights: the same function as PEFT's, onto a mesh too, or one error."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from safetensors.numpy import load_file, save_file

import port
from port.cli import main
from port.errors import PortError, UsageError, WeightsMismatch
from port.weights.adapter_config import adapter_config_from
from port.weights.adapter_files import adapter_of, opened_adapter
from port.weights.adapters import merged
from port.weights.checkpoint import open_checkpoint, write_checkpoint
from port.weights.conversion import convert
from port.weights.sources import opened
from tests.port.weights import some_adapter
from tests.port.weights.some_adapter import Net, Torch, arrays_of, changed
from tests.port.weights.some_tensors import tensors_of

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)

IDS = np.array([[1, 10, 0, 4], [3, 3, 7, 9]])
UP = "base_model.model.blocks.0.up.lora_A.weight"
DOWN = "base_model.model.blocks.0.up.lora_B.weight"


@pytest.fixture
def files(tmp_path):
    return some_adapter.written(tmp_path)


def outputs(base, adapter):
    with jax.enable_x64(True):
        net = Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
        port.load(net, base, adapter=adapter)
        return np.asarray(net(IDS))


def wanted(module):
    with torch.no_grad():
        return module(torch.from_numpy(IDS)).numpy()


def test_the_flax_model_says_what_the_adapted_one_says(files):
    base, adapter, module = files
    assert np.abs(outputs(base, adapter) - wanted(module)).max() < 1e-12
    assert np.abs(outputs(base, None) - wanted(module)).max() > 0.1


def test_a_torch_module_is_filled_with_the_merged_weights(files):
    base, adapter, module = files
    twin = Torch().double()
    port.load(twin, base, adapter=adapter)
    assert np.abs(wanted(twin) - wanted(module)).max() < 1e-12


FAULTS = {
    "the scaling forgotten": {"lora_alpha": 2, "alpha_pattern": {}, "rank_pattern": {"blocks.1.up": 4}},
    "one alpha for all": {"alpha_pattern": {}},
    "by the rank's root": {"use_rslora": True},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_another_scaling_is_seen(files, fault):
    base, adapter, module = files
    other = changed(adapter, arrays_of(module), **FAULTS[fault])
    assert np.abs(outputs(base, other) - wanted(module)).max() > 1e-3


def test_by_the_rank_s_root_where_the_config_says_so(files):
    base, adapter, module = files
    for block, rank in zip(module.blocks, (2, 4), strict=True):
        block.up.scaling, block.down.scaling = 3 / rank**0.5, 5 / 2**0.5
    other = changed(adapter, arrays_of(module), use_rslora=True)
    assert np.abs(outputs(base, other) - wanted(module)).max() < 1e-12


def test_factors_that_are_swapped_or_transposed_do_not_fit(files):
    base, adapter, module = files
    arrays = arrays_of(module)
    arrays[UP], arrays[DOWN] = arrays[DOWN], arrays[UP]
    with pytest.raises(WeightsMismatch, match=r"lora_A.weight has shape \(10, 2\): it is \(rank, in\), and the rank"):
        outputs(base, changed(adapter, arrays))
    arrays[UP], arrays[DOWN] = arrays[UP].T.copy(), arrays[DOWN].T.copy()
    with pytest.raises(WeightsMismatch, match=r"are of another weight than \(10, 6\)"):
        outputs(base, changed(adapter, arrays))


def test_weights_that_are_in_out_as_gpt_2_s(tmp_path, files):
    """fan_in_fan_out: the weight is (in, out), the factors are as ever."""
    base, adapter, module = files
    arrays = load_file(base)
    turned = {name: np.ascontiguousarray(a.T) if "blocks" in name and a.ndim == 2 else a for name, a in arrays.items()}
    save_file(turned, tmp_path / "turned.safetensors")
    other = changed(adapter, arrays_of(module), fan_in_fan_out=True)
    with opened(base) as right, opened(tmp_path / "turned.safetensors") as turned_base:
        with opened_adapter(adapter) as here, opened_adapter(other) as there:
            one, two = merged(right, here), merged(turned_base, there)
            for name in one:
                other_way = two[name] if two[name].shape == one[name].shape else two[name].T
                assert np.abs(one[name] - other_way).max() < 1e-14
        with opened_adapter(adapter) as straight, pytest.raises(WeightsMismatch, match="of another weight"):
            merged(turned_base, straight)


def test_an_embedding_s_factors(files, tmp_path):
    base, adapter, module = files
    down, up = np.random.default_rng(1).normal(size=(2, 11)), np.random.default_rng(2).normal(size=(6, 2))
    arrays = arrays_of(module) | {
        "base_model.model.tokens.lora_embedding_A": down,
        "base_model.model.tokens.lora_embedding_B": up,
    }
    other = changed(adapter, arrays, target_modules=["up", "down", "tokens"])
    with torch.no_grad():
        module.tokens.weight += torch.from_numpy(1.5 * (up @ down).T)
    assert np.abs(outputs(base, other) - wanted(module)).max() < 1e-12


def test_what_the_adapter_trained_whole_takes_the_place(files):
    """A bias (``bias="lora_only"``), beside the head that it holds whole."""
    base, adapter, module = files
    with torch.no_grad():
        module.blocks[0].up.base_layer.bias += 1
    bias = module.blocks[0].up.base_layer.bias.detach().numpy().copy()
    arrays = arrays_of(module) | {"base_model.model.blocks.0.up.base_layer.bias": bias}
    assert np.abs(outputs(base, changed(adapter, arrays, bias="lora_only")) - wanted(module)).max() < 1e-12


def test_of_tied_weights_one_may_be_adapted(files):
    """In torch's file embedding and head are one tensor; an adapter of one of them leaves the other as it is."""
    base, adapter, _ = files
    with opened(base) as tensors, opened_adapter(adapter) as opened_one:
        tensors.aliases["blocks.1.up.weight"] = "blocks.0.up.weight"
        tensors.aliases["blocks.1.up.bias"] = "blocks.0.up.bias"
        assert merged(tensors, opened_one).aliases == {"blocks.1.up.bias": "blocks.0.up.bias"}


SHARDED = {r"blocks\..*\.kernel": P(None, "fsdp"), ".*": P()}


@pytest.mark.parametrize("kind", ["safetensors", "hub"])
@pytest.mark.parametrize("table", [SHARDED, {r".*down\.kernel|.*up\.bias": P("fsdp"), ".*": P()}, P()], ids=str)
def test_each_device_merges_its_part(files, tmp_path, kind, table):
    base, adapter, module = files
    if kind == "hub":
        with open_checkpoint(base) as checkpoint:
            arrays = {name: checkpoint.read(name).copy() for name in checkpoint.tensors}
        write_checkpoint(tmp_path / "hub", tensors_of(arrays), format="hf", max_shard_size=500)
        base = tmp_path / "hub"
    mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    with jax.enable_x64(True):
        net = nnx.eval_shape(lambda: Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64))
        done = port.load(net, base, adapter=adapter, mesh=mesh, sharding=table)
        assert np.abs(np.asarray(net(IDS)) - wanted(module)).max() < 1e-12
    assert done.nbytes_read == done.nbytes
    assert net.blocks[0].up.kernel[...].sharding == done.shardings["blocks.0.up.kernel"]


def test_a_weight_s_dtype_stays(files, tmp_path):
    base, adapter, module = files
    half = {name: array.astype(ml_dtypes.bfloat16) for name, array in load_file(base).items()}
    save_file(half, tmp_path / "half.safetensors")
    with opened(tmp_path / "half.safetensors") as tensors, opened_adapter(adapter) as lora:
        both = merged(tensors, lora)
        assert {array.dtype.name for name, array in both.items() if "head" not in name} == {"bfloat16"}
        assert all(both.tensors[name].dtype == both[name].dtype for name in both)
        assert both["tokens.weight"].tobytes() == half["tokens.weight"].tobytes()
        exact = half["blocks.0.up.weight"].astype(float) + 1.5 * arrays_of(module)[DOWN] @ arrays_of(module)[UP]
        assert both["blocks.0.up.weight"].tobytes() == exact.astype(ml_dtypes.bfloat16).tobytes()


def test_a_wrapper_s_prefix_is_no_part_of_the_names(files, tmp_path):
    base, adapter, module = files
    save_file({f"module.{name}": array for name, array in load_file(base).items()}, tmp_path / "ddp.safetensors")
    assert np.abs(outputs(tmp_path / "ddp.safetensors", adapter) - wanted(module)).max() < 1e-12


def test_an_adapter_of_another_model_is_named_whole(files):
    base, adapter, module = files
    arrays = {name.replace("blocks", "layers"): array for name, array in arrays_of(module).items()}
    with pytest.raises(WeightsMismatch) as caught:
        outputs(base, changed(adapter, arrays, rank_pattern={"layers.1.up": 4}))
    said = str(caught.value)
    assert "it may be another model's" in said
    assert said.count("unexpected: an adapter of layers.") == 4
    assert said.count("missing: the adapter of blocks.") == 4
    assert "layers.0.up.weight, which the model lacks (nearest: blocks.0.up.weight)" in said


def test_a_module_that_the_config_names_and_the_file_lacks(files):
    base, adapter, module = files
    arrays = {name: array for name, array in arrays_of(module).items() if "blocks.1.down" not in name}
    with pytest.raises(WeightsMismatch, match=r"missing: the adapter of blocks\.1\.down, which target_modules"):
        outputs(base, changed(adapter, arrays))
    outputs(base, changed(adapter, arrays, target_modules=r"blocks\.(\d+)\.up|blocks\.0\.down"))
    outputs(base, changed(adapter, arrays, exclude_modules=["1.down"]))
    outputs(base, changed(adapter, arrays, layers_to_transform=[0]))


PATHS = st.sampled_from(["up", "0.up", "head"])
ENDS = st.sampled_from(["lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B", "weight", "lora_C"])
SHAPES = st.lists(st.integers(1, 2), min_size=2, max_size=2).map(tuple) | st.lists(st.integers(0, 3)).map(tuple)
OURS = st.dictionaries(PATHS.map("{}.weight".format) | st.just("odd"), SHAPES, max_size=4)
THEIRS = st.dictionaries(st.builds("base_model.model.{}.{}".format, PATHS, ENDS) | st.just("odd"), SHAPES, max_size=6)


@settings(max_examples=200, deadline=None)
@given(base=OURS, adapter=THEIRS, rank=st.integers(1, 2), target=st.sampled_from([None, ["up"], ".*", "all-linear"]))
def test_whatever_is_there_it_is_merged_or_refused(base, adapter, rank, target):
    """Every tensor of the result is one of the base's; every one of the adapter's is used, or refused by name."""
    told = {"peft_type": "LORA", "r": rank, "lora_alpha": 1, "target_modules": target}
    config = adapter_config_from(json.dumps(told), "its config")
    try:
        with opened(zeros(base)) as tensors, opened(zeros(adapter)) as factors:
            lora = adapter_of(config, factors)
            result = merged(tensors, lora)
            assert {name: result[name].shape for name in result} == result.shapes
    except PortError as error:
        assert str(error)
        return
    used = {name for each in lora.factors for name in (each.down, each.up)} | set(lora.whole.values())
    assert used == set(adapter)
    assert set(result) == set(base)


def zeros(shapes):
    return {name: np.zeros(shape) for name, shape in shapes.items()}


MERGED = """
[[rule]]
source = ['(blocks\\.\\d+\\.up)\\.weight', '\\1.lora_A', '\\1.lora_B']
target = '\\1.kernel'
moves = [{merge = 1.5}, {permute = [1, 0]}]
"""


def test_a_mapping_file_may_say_it_one_way(files, tmp_path, monkeypatch, capsys):
    """Factors that stand among the weights, as another trainer keeps them."""
    base, _, module = files
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(MERGED)
    arrays = load_file(base)
    for number in (0, 1):
        for which in "AB":
            name = f"base_model.model.blocks.{number}.up.lora_{which}.weight"
            arrays[f"blocks.{number}.up.lora_{which}"] = arrays_of(module)[name]
    save_file(arrays, tmp_path / "both.safetensors")
    with jax.enable_x64(True):
        net = Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
        port.load(net, tmp_path / "both.safetensors", rename=tmp_path / "m.toml")
        up, down = (arrays[f"blocks.0.up.{name}"] for name in ("lora_B", "lora_A"))
        wanted = arrays["blocks.0.up.weight"] + 1.5 * up @ down
        assert np.abs(np.asarray(net.blocks[0].up.kernel[...]).T - wanted).max() < 1e-14
    model = ["--flax", "tests.port.weights.some_adapter:Net", "--mapping", "m.toml"]
    assert main(["convert", "both.safetensors", *model, "-o", "f.safetensors", "--save-mapping", "whole.toml"]) == 0
    whole = ["--flax", "tests.port.weights.some_adapter:Net", "--mapping", "whole.toml"]
    assert main(["convert", "both.safetensors", *whole, "-o", "again.safetensors"]) == 0
    assert (tmp_path / "again.safetensors").stat().st_size == (tmp_path / "f.safetensors").stat().st_size
    capsys.readouterr()
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 2
    said = capsys.readouterr().err
    assert "blocks.0.up.kernel  [merge(W + 1.5 B A), permute(1, 0)]: " in said
    assert "cannot be separated" in said
    assert "Traceback" not in said


def test_flax_variables_have_no_place_for_it(files, tmp_path):
    base, adapter, _ = files
    convert(base, tmp_path / "flax.safetensors", flax=Net(rngs=nnx.Rngs(0)))
    with pytest.raises(UsageError, match="these are Flax variables, but a PEFT adapter uses torch's names"):
        outputs(tmp_path / "flax.safetensors", adapter)


def test_a_model_stays_as_it_is_where_the_adapter_does_not_fit(files):
    base, adapter, module = files
    arrays = arrays_of(module)
    arrays[DOWN] = arrays[DOWN][:9].copy()
    net = Net(rngs=nnx.Rngs(0))
    before = jax.tree.map(np.asarray, nnx.state(net))
    with pytest.raises(WeightsMismatch, match=r"A \(2, 6\) and B \(9, 2\) are of another weight than \(10, 6\)"):
        port.load(net, base, adapter=changed(adapter, arrays))
    assert jax.tree.all(jax.tree.map(np.array_equal, before, jax.tree.map(np.asarray, nnx.state(net))))


def test_on_the_command_line(files, tmp_path, monkeypatch, capsys):
    base, adapter, module = files
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    model = ["--flax", "tests.port.weights.some_adapter:Net"]
    assert main(["convert", str(base), "--adapter", str(adapter), *model, "-o", "merged.safetensors"]) == 0
    assert "is merged into the weights: on the way back they come merged" in capsys.readouterr().out
    assert main(["convert", "merged.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    twin = Torch().double()
    twin.load_state_dict({name: torch.from_numpy(array) for name, array in load_file("back.safetensors").items()})
    assert np.abs(wanted(twin) - wanted(module)).max() < 1e-12
    assert main(["convert", str(base), "--adapter", str(tmp_path), *model, "-o", "other.safetensors"]) == 2
    assert "no adapter's folder: it has no adapter_config.json" in capsys.readouterr().err
    assert main(["convert", "merged.safetensors", "--adapter", str(adapter), "--reverse", "-o", "x.pth"]) == 2
    assert "on the way to Flax: leave reverse out" in capsys.readouterr().err
    assert not (tmp_path / "other.safetensors").exists()
