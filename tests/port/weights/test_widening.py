"""Weights of eight bits: widened by their scales, kept beside them, and back to the last bit or not at all."""

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

import port
from port.cli import main
from port.errors import PortError, UnknownChoice, UsageError, WeightsMismatch
from port.mapping import read_mapping
from port.weights.adapter_files import opened_adapter
from port.weights.adapters import merged
from port.weights.checkpoint import write_checkpoint
from port.weights.files import read_arrays, write_arrays
from port.weights.sources import opened
from port.weights.widening import widened, widening_entries, with_scales, without_scales
from tests.port.weights.some_scales import LAYOUTS, WIDE, Net, Torch, quantised, stored
from tests.port.weights.some_tensors import tensors_of

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)

IDS = np.array([[1, 10, 0, 4]])
MODEL = ["--flax", "tests.port.weights.some_scales:Net"]


@pytest.fixture(params=LAYOUTS)
def files(request, tmp_path, monkeypatch):
    """A checkpoint in each layout, and the weights that it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    held, wide = stored(request.param)
    write_arrays(tmp_path / "w.safetensors", held)
    return tmp_path / "w.safetensors", held, wide


@pytest.fixture
def deepseek(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    held, wide = stored("deepseek")
    write_arrays(tmp_path / "w.safetensors", held)
    return tmp_path / "w.safetensors", held, wide


def bits(arrays):
    return {name: (array.dtype.name, array.shape, array.tobytes()) for name, array in arrays.items()}


def test_a_torch_module_is_filled_with_what_both_say(files):
    path, _, wide = files
    module = Torch()
    port.load(module, path, widen="float32")
    assert bits({name: tensor.numpy() for name, tensor in module.state_dict().items()}) == bits(wide)


def test_the_flax_model_computes_what_the_torch_one_does(files, float64):
    path, _, wide = files
    module, net = Torch(), Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in wide.items()})
    port.load(net, path, widen="float32")
    wanted = module.double()(torch.from_numpy(IDS)).detach().numpy()
    assert np.abs(np.asarray(net(IDS)) - wanted).max() < 1e-12
    net.down.kernel[...] = net.down.kernel[...] * 2  # a scale that is not the one
    assert np.abs(np.asarray(net(IDS)) - wanted).max() > 1e-3


def test_there_and_back_on_the_command_line(files, tmp_path, capsys):
    path, held, wide = files
    assert (
        main(["convert", str(path), *MODEL, "--widen", "float32", "-o", "f.safetensors", "--save-mapping", "m.toml"])
        == 0
    )
    made = read_arrays(tmp_path / "f.safetensors")
    assert made["params.up.kernel"].tobytes() == np.ascontiguousarray(wide["up.weight"].T).tobytes()
    assert made["params.down.kernel"].dtype == np.float32
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    assert bits(read_arrays("back.safetensors")) == bits(held)
    assert main(["convert", "f.safetensors", "--reverse", "--widen", "float32", "-o", "wide.safetensors"]) == 0
    assert bits(read_arrays("wide.safetensors")) == bits(wide)
    # The mapping alone says it, too: as a file, into a module, and the other way.
    net = Net(rngs=nnx.Rngs(0))
    port.load(net, path, rename=tmp_path / "m.toml")
    assert np.array_equal(np.asarray(net.up.kernel[...]), wide["up.weight"].T)
    mapping = read_mapping(tmp_path / "m.toml")
    with opened(path) as tensors:
        assert bits(mapping.inverse()(mapping(tensors))) == bits(held)


def test_to_fewer_digits_it_stays_widened(deepseek, tmp_path, capsys):
    path, _, wide = deepseek
    assert main(["convert", str(path), *MODEL, "--widen", "bfloat16", "-o", "f.safetensors"]) == 0
    made = read_arrays("f.safetensors")["params.up.kernel"]
    assert made.tobytes() == np.ascontiguousarray(wide["up.weight"].T.astype(ml_dtypes.bfloat16)).tobytes()
    capsys.readouterr()
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 2
    said = capsys.readouterr().err
    assert "no scale reproduces the block (0, 0) to the last bit" in said
    assert "Traceback" not in said
    assert not (tmp_path / "back.safetensors").exists()
    assert main(["convert", "f.safetensors", "--reverse", "--widen", "bfloat16", "-o", "wide.safetensors"]) == 0
    back = read_arrays("wide.safetensors")
    assert back["up.weight"].tobytes() == wide["up.weight"].astype(ml_dtypes.bfloat16).tobytes()
    assert set(back) == set(wide)


def test_a_cast_comes_behind_the_product(deepseek, tmp_path):
    path, _, wide = deepseek
    assert main(["convert", str(path), *MODEL, "--widen", "float32", "--dtype", "bfloat16", "-o", "f.safetensors"]) == 0
    made = read_arrays("f.safetensors")
    assert {array.dtype.name for array in made.values()} == {"bfloat16"}
    wanted = wide["down.weight"].T.astype(ml_dtypes.bfloat16)
    assert made["params.down.kernel"].tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("kind", ["safetensors", "hub", "torch"])
def test_each_device_widens_its_part(files, tmp_path, kind):
    path, held, wide = files
    if kind == "hub":
        write_checkpoint(tmp_path / "hub", tensors_of(held), format="hf", max_shard_size=900)
        path = tmp_path / "hub"
    elif kind == "torch":
        write_checkpoint(tmp_path / "w.pt", tensors_of(held), format="torch")
        path = tmp_path / "w.pt"
    mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    table = {"up.kernel": P(None, "fsdp"), "down.kernel": P("fsdp"), ".*": P()}
    net = nnx.eval_shape(lambda: Net(rngs=nnx.Rngs(0)))
    done = port.load(net, path, widen="bfloat16", mesh=mesh, sharding=table)
    for name in ("up", "down"):
        kernel = getattr(net, name).kernel[...]
        assert kernel.dtype == jnp.bfloat16
        assert kernel.sharding == done.shardings[f"{name}.kernel"]
        wanted = wide[f"{name}.weight"].T.astype(ml_dtypes.bfloat16)
        assert np.asarray(kernel).tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert net.up.bias[...].dtype == jnp.float32


class Kept(nnx.Module):
    """A model that holds weights and scales: a parameter each."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(11, 6, rngs=rngs)
        self.up, self.down = Scaled(6, WIDE, (3, 1), True), Scaled(WIDE, 5, (1, 3), False)

    def __call__(self, ids: jax.Array) -> jax.Array:
        return self.down(jnp.tanh(self.up(self.tokens(ids))))


class Scaled(nnx.Module):
    def __init__(self, inputs: int, outputs: int, blocks: tuple[int, int], use_bias: bool) -> None:
        self.weight = nnx.Param(jnp.zeros((outputs, inputs), jnp.float8_e4m3fn))
        self.weight_scale_inv = nnx.Param(jnp.ones(blocks))
        self.bias = nnx.Param(jnp.zeros(outputs)) if use_bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        rows, columns = self.weight.shape
        scales = jnp.repeat(jnp.repeat(self.weight_scale_inv[...], 128, 0)[:rows], 128, 1)[:, :columns]
        y = x @ (self.weight[...].astype(jnp.float32) * scales).T
        return y if self.bias is None else y + self.bias[...]


@pytest.mark.parametrize("on_mesh", [False, True])
def test_kept_each_is_a_parameter(deepseek, tmp_path, on_mesh):
    path, held, _ = deepseek
    net = Kept(rngs=nnx.Rngs(0))
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    where = {"mesh": mesh} if on_mesh else {}
    port.load(net, path, **where)
    assert np.asarray(net.up.weight[...]).tobytes() == held["up.weight"].tobytes()
    assert np.array_equal(np.asarray(net.down.weight_scale_inv[...]), held["down.weight_scale_inv"])
    other = Net(rngs=nnx.Rngs(0))
    port.load(other, path, widen="float32")
    assert np.abs(np.asarray(net(IDS) - other(IDS))).max() < 1e-6
    options = ["--flax", "tests.port.weights.test_widening:Kept"]
    assert main(["convert", str(path), *options, "-o", "kept.safetensors"]) == 0
    assert main(["convert", "kept.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    assert bits(read_arrays("back.safetensors")) == bits(held)


def test_an_adapter_is_merged_into_the_widened_weight(deepseek, tmp_path, float64):
    path, _, wide = deepseek
    random = np.random.default_rng(0)
    factors = {"base_model.model.up.lora_A.weight": random.normal(size=(2, 6))}
    factors["base_model.model.up.lora_B.weight"] = random.normal(size=(WIDE, 2))
    (tmp_path / "adapter").mkdir()
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "target_modules": ["up"]}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    write_arrays(tmp_path / "adapter" / "adapter_model.safetensors", factors)
    down, up = factors.values()
    wanted = wide["up.weight"] + 1.5 * up @ down
    net = Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    port.load(net, path, widen="float64", adapter=tmp_path / "adapter")
    assert np.abs(np.asarray(net.up.kernel[...]).T - wanted).max() < 1e-6  # the product was exact, the weight float32
    assert np.abs(np.asarray(net.up.kernel[...]).T - wide["up.weight"]).max() > 0.1
    options = [*MODEL, "--widen", "float32", "--adapter", "adapter"]
    assert main(["convert", str(path), *options, "-o", "f.safetensors"]) == 0
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    assert np.abs(read_arrays("back.safetensors")["up.weight"] - wanted).max() < 1e-6
    with opened(path) as tensors, opened_adapter(tmp_path / "adapter") as adapter:
        unwidened = merged(tensors, adapter)
        with pytest.raises(WeightsMismatch, match="quantised: widen it by its scale"):
            unwidened["up.weight"]


def test_what_scales_activations_is_left_out(deepseek, tmp_path, capsys):
    path, held, _ = deepseek
    more = {"up.input_scale": np.ones((), np.float32), "down.activation_scale": np.ones((), np.float32)}
    write_arrays(path, held | more)
    assert main(["convert", str(path), *MODEL, "--widen", "float32", "-o", "f.safetensors"]) == 0
    said = capsys.readouterr().out
    assert "up.input_scale" in said
    assert "scales what goes in or out, not the weight" in said
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    assert bits(read_arrays("back.safetensors")) == bits(held)


def test_zero_points_that_are_zero_say_nothing(deepseek, tmp_path, capsys):
    """As older compressed-tensors kept them of weights that are around zero."""
    path, held, _ = deepseek
    points = np.zeros((3, 1), ml_dtypes.float8_e4m3fn)
    write_arrays(path, held | {"up.weight_zero_point": points})
    assert main(["convert", str(path), *MODEL, "--widen", "float32", "-o", "f.safetensors"]) == 0
    assert "zero points, all of them zero" in capsys.readouterr().out
    points[2] = 1
    write_arrays(path, held | {"up.weight_zero_point": points})
    assert main(["convert", str(path), *MODEL, "--widen", "float32", "-o", "g.safetensors"]) == 2
    assert "up.weight_zero_point: weights that are not around zero are not read" in capsys.readouterr().err


def test_wrappers_are_no_part_of_the_names(deepseek, tmp_path):
    path, held, _ = deepseek
    write_arrays(path, {f"module.{name}": array for name, array in held.items()})
    assert main(["convert", str(path), *MODEL, "--widen", "float32", "-o", "f.safetensors"]) == 0
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    assert bits(read_arrays("back.safetensors")) == bits(held)


def test_the_blocks_are_the_config_s(deepseek, tmp_path):
    """260 rows in blocks of 100 are three, as in blocks of 128: what the shapes do not tell, config.json does."""
    _, held, wide = deepseek
    folder = tmp_path / "hub"
    write_checkpoint(folder, tensors_of(held), format="hf")
    module = Torch()
    for size, same in ((128, True), (100, False)):
        config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [size, size]}}
        (folder / "config.json").write_text(json.dumps(config))
        port.load(module, folder, widen="float32")
        assert np.array_equal(module.up.weight.detach().numpy(), wide["up.weight"]) is same
    (folder / "config.json").write_text(json.dumps({"quantization_config": {"weight_block_size": [64, 64]}}))
    with pytest.raises(WeightsMismatch, match="nor one for each block of 64 × 64"):
        port.load(module, folder, widen="float32")


def test_a_config_that_says_quantised_is_not_taken_along(deepseek, tmp_path, capsys):
    path, held, _ = deepseek
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "fp8"}}))
    assert main(["convert", str(path), *MODEL, "--widen", "float32", "-o", "f.safetensors"]) == 0
    back = ["convert", "f.safetensors", "--reverse", "--format", "hf", "--like", "hub", "-o", "back"]
    assert main([*back, "--widen", "float32"]) == 2
    assert "says that the weights are quantised, but they stay widened" in capsys.readouterr().err
    assert main(back) == 0
    assert bits(read_arrays(tmp_path / "back" / "model.safetensors")) == bits(held)


WRONG = {
    "a scale without a weight": (
        lambda held: held.pop("up.weight"),
        "missing: up.weight, whose scale up.weight_scale_inv is there",
    ),
    "a weight without a scale": (
        lambda held: held.pop("up.weight_scale_inv"),
        "missing: the scale of up.weight, which is float8_e4m3fn",
    ),
    "two scales": (
        lambda held: held.update({"up.weight_scale": held["up.weight_scale_inv"]}),
        "unexpected: up.weight_scale: up.weight has a scale already, up.weight_scale_inv",
    ),
    "a scale of another weight": (
        lambda held: held.update({"up.weight_scale_inv": np.ones((2, 2), np.float32)}),
        r"up.weight, up.weight_scale_inv: a weight of shape \(260, 6\) and scales of shape \(2, 2\): neither",
    ),
    "a weight that is not quantised": (
        lambda held: held.update({"up.weight": held["up.weight"].astype(np.float32)}),
        "the weight is float32, not an eight-bit number with a scale",
    ),
    "zero points": (
        lambda held: held.update({"up.weight_zero_point": np.ones((3, 1), np.int8)}),
        "up.weight_zero_point: weights that are not around zero are not read",
    ),
    "scales of four bits": (
        lambda held: held.update({"up.weight_packed": np.ones((3, 1), np.int32)}),
        "up.weight_packed: several weights in one number are not read",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_named(deepseek, wrong):
    _, held, _ = deepseek
    change, message = WRONG[wrong]
    change(held)
    net = Net(rngs=nnx.Rngs(0))
    before = np.asarray(net.up.kernel[...])
    with pytest.raises(WeightsMismatch, match=message):
        port.load(net, held, widen="float32")
    assert np.array_equal(before, np.asarray(net.up.kernel[...]))


def test_all_that_is_wrong_is_named_at_once(deepseek):
    _, held, _ = deepseek
    held["up.weight_scale_inv"] = np.ones((2, 2), np.float32)
    del held["down.weight"]
    held |= {name: np.ones((2, 2), ml_dtypes.float8_e5m2) for name in ("a.weight", "b.weight")}
    with pytest.raises(WeightsMismatch) as caught:
        port.load(Net(rngs=nnx.Rngs(0)), held, widen="float32")
    lines = [line.strip().partition(",")[0] for line in str(caught.value).splitlines()[1:]]
    assert sorted(lines) == [
        "missing: down.weight",
        "missing: the scale of a.weight",
        "missing: the scale of b.weight",
        "up.weight",
    ]


def test_nothing_to_widen_and_no_such_dtype(deepseek, tmp_path, capsys):
    _, held, wide = deepseek
    net = Net(rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match="there is nothing to widen"):
        port.load(net, wide, widen="float32")
    with pytest.raises(UnknownChoice, match="unknown dtype to widen to 'float8_e4m3fn'"):
        port.load(net, held, widen="float8_e4m3fn")
    with pytest.raises(WeightsMismatch, match=r"(?s)unexpected: down\.weight_scale_inv.*widen='bfloat16' \(--widen\)"):
        port.load(net, held)
    with pytest.raises(WeightsMismatch) as caught:
        port.load(net, wide | {"more": np.zeros(1)})
    assert "--widen" not in str(caught.value)
    write_arrays(tmp_path / "wide.safetensors", wide)
    assert main(["convert", "wide.safetensors", *MODEL, "-o", "f.safetensors"]) == 0
    assert main(["convert", "f.safetensors", "--reverse", "--widen", "float32", "-o", "b.safetensors"]) == 2
    assert "was not widened: leave the dtype to widen to out" in capsys.readouterr().err
    assert main(["convert", "f.safetensors", *MODEL, "--widen", "float32", "-o", "b.safetensors"]) == 2
    capsys.readouterr()
    with opened(tmp_path / "f.safetensors") as flax, pytest.raises(UsageError, match="these are Flax variables"):
        widened(flax, "float32")


ENDS = st.sampled_from(["", "_scale", "_scale_inv", "_zero_point", "_packed"])
NAMES = st.tuples(st.sampled_from(["up.weight", "weight", "up.SCB", "experts", "input_scale", "_scale"]), ENDS).map(
    "".join
)
DTYPES = st.sampled_from([np.int8, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.int64])
SHAPES = st.lists(st.sampled_from([0, 1, 2, 128, 130]), max_size=3).map(tuple)


@settings(max_examples=200, deadline=None)
@given(
    file=st.dictionaries(NAMES, st.tuples(SHAPES, DTYPES), max_size=5), dtype=st.sampled_from(["float32", "bfloat16"])
)
def test_whatever_is_there_it_is_widened_or_refused(file, dtype):
    arrays = {name: np.ones(shape, of) for name, (shape, of) in file.items()}
    try:
        with opened(arrays) as tensors:
            result = widened(tensors, dtype)
            read = {name: result[name] for name in result}
    except PortError as error:
        assert str(error)
        return
    assert {name: (array.shape, array.dtype) for name, array in read.items()} == {
        name: (info.shape, info.dtype) for name, info in result.tensors.items()
    }
    for name, array in read.items():
        assert array.shape == arrays[name].shape
        assert (
            array.astype(np.float32) == (1 / 127 if "up.SCB" in arrays and name == "up.weight" else 1)
        ).all() or dtype == "bfloat16"
    assert not any(array.dtype.name.startswith("float8") for array in read.values())


def test_experts_have_a_scale_each(tmp_path):
    """Weights of three axes under names of their own, as transformers keeps a mixture's."""
    weight = np.random.default_rng(0).normal(size=(4, 140, 130)).astype(np.float32)
    each = [quantised(one, "float8_e4m3fn", (2, 2)) for one in weight]
    small, scales, said = (np.stack(arrays) for arrays in zip(*each, strict=True))
    with opened({"experts.gate": small, "experts.gate_scale_inv": scales}) as tensors:
        wide = widened(tensors, "float32", (128, 128))
        assert list(wide) == ["experts.gate"]
        assert wide["experts.gate"].tobytes() == said.tobytes()


def test_a_mapping_s_scales_come_and_go(deepseek):
    path, _, _ = deepseek
    mapping = port.mapping.between(Torch(), Net(rngs=nnx.Rngs(0)))
    with opened(path) as tensors:
        both = with_scales(mapping, widening_entries(tensors, "float32"))
        both.check(tensors.shapes)
    assert without_scales(both) == mapping
    assert both != mapping
