"""`port convert` of a PEFT folder by itself: to a file of Flax's factors, and back by itself, bit for bit."""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file

import port
from port.cli import main
from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import open_checkpoint
from port.weights.nnx_variables import variables_of
from tests.port.weights import some_adapter
from tests.port.weights.some_adapter import FACTORS, Net, arrays_of, changed

MODEL = ["--flax", "tests.port.weights.some_adapter:Net"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return some_adapter.written(tmp_path)


def test_there_and_back(files, tmp_path, capsys):
    _, adapter, module = files
    (adapter / "training_args.bin").write_bytes(b"what a trainer leaves there")
    assert main(["convert", str(adapter), *MODEL, "-o", "lora.safetensors"]) == 0
    assert "this is the adapter alone" in capsys.readouterr().out
    made = load_file("lora.safetensors")
    assert set(made) == {"params.head.kernel", "params.head.bias"} | {
        f"LoRAParam.{path}.lora_{which}" for path in FACTORS for which in "ab"
    }
    wanted = arrays_of(module)
    up = wanted["base_model.model.blocks.1.up.lora_B.weight"]
    assert np.array_equal(made["LoRAParam.blocks.1.up.lora_b"], up.T)
    assert main(["convert", "lora.safetensors", "--reverse", "--format", "peft", "-o", "back"]) == 0
    back = load_file(tmp_path / "back" / "adapter_model.safetensors")
    assert {name: array.tobytes() for name, array in back.items()} == {n: a.tobytes() for n, a in wanted.items()}
    assert (tmp_path / "back" / "adapter_config.json").read_text() == (adapter / "adapter_config.json").read_text()


@pytest.mark.parametrize("name", ["lora.safetensors", "lora.orbax"])
@pytest.mark.parametrize("merge", [True, False])
def test_what_was_made_of_it_is_loaded_as_it_is(files, tmp_path, name, merge, float64):
    base, adapter, _ = files
    assert main(["convert", str(adapter), *MODEL, "-o", name]) == 0
    from_folder, from_file = (Net(rngs=nnx.Rngs(0), param_dtype=jnp.float64) for _ in range(2))
    port.load(from_folder, base, adapter=adapter, merge=merge)
    port.load(from_file, base, adapter=tmp_path / name, merge=merge)
    one, other = variables_of(from_folder), variables_of(from_file)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[path], other[path]) for path in one)
    if not merge:
        port.save_adapter(from_file, tmp_path / "back", like=tmp_path / name)
        assert (tmp_path / "back" / "adapter_config.json").read_text() == (adapter / "adapter_config.json").read_text()


def test_another_file_is_no_adapter(files, tmp_path):
    base, _, _ = files
    with pytest.raises(UsageError, match="does not say that it is an adapter"):
        port.load(Net(rngs=nnx.Rngs(0)), base, adapter=base)
    with pytest.raises(BrokenWeights, match="nowhere: there is no such adapter, folder or file"):
        port.load(Net(rngs=nnx.Rngs(0)), base, adapter=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["lora.msgpack", "lora.npz", "lora.orbax"])
def test_in_any_format_of_flax_s(files, tmp_path, name):
    _, adapter, module = files
    assert main(["convert", str(adapter), *MODEL, "-o", name]) == 0
    assert main(["convert", name, "--reverse", "--format", "peft", "-o", "back"]) == 0
    back = load_file(tmp_path / "back" / "adapter_model.safetensors")
    assert {n: array.tobytes() for n, array in back.items()} == {n: a.tobytes() for n, a in arrays_of(module).items()}


def test_a_factor_that_was_changed_is_refused(files, tmp_path, capsys):
    _, adapter, _ = files
    assert main(["convert", str(adapter), *MODEL, "-o", "lora.safetensors"]) == 0
    content = bytearray((tmp_path / "lora.safetensors").read_bytes())
    content[-3] ^= 1
    (tmp_path / "lora.safetensors").write_bytes(content)
    assert main(["convert", "lora.safetensors", "--reverse", "--format", "peft", "-o", "back"]) == 2
    assert "does not come back as it was converted" in capsys.readouterr().err
    assert not (tmp_path / "back").exists()


def refused(arguments, capsys, *said):
    assert main(["convert", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert all(each in error for each in said), error
    assert "Traceback" not in error


def test_what_cannot_be_is_said(files, tmp_path, capsys):
    base, adapter, module = files
    refused([adapter, "-o", "x.safetensors"], capsys, "is an adapter: pass the Flax model that it is kept beside")
    refused([adapter, *MODEL, "--adapter", adapter, "-o", "x.safetensors"], capsys, "is an adapter itself")
    assert main(["convert", str(base), *MODEL, "-o", "flax.safetensors"]) == 0
    back = ["--reverse", "--format", "peft", "-o", "x"]
    refused(["flax.safetensors", *back], capsys, "does not say which adapter it was made from", "--like FOLDER")
    refused(["flax.safetensors", *back, "--like", adapter], capsys, "PEFT's names begin with base_model.model.")
    refused([base, *MODEL, "--format", "peft", "-o", "x"], capsys, "not written as peft")
    arrays = {name: array for name, array in arrays_of(module).items() if "head.bias" not in name}
    arrays["base_model.model.tail.weight"] = np.ones((2, 2))
    refused([changed(adapter, arrays), *MODEL, "-o", "x.safetensors"], capsys, "the model has no tail.weight")
    other = {name.replace("blocks.0", "layers.0"): array for name, array in arrays_of(module).items()}
    refused(
        [changed(adapter, other), *MODEL, "-o", "x.safetensors"],
        capsys,
        "layers.0.up: the model has no place for layers.0.up.weight (nearest: ",
    )
    assert not any((tmp_path / name).exists() for name in ("x", "x.safetensors"))


def test_a_folder_is_one_adapter(files):
    _, adapter, module = files
    with open_checkpoint(adapter) as checkpoint:
        assert set(checkpoint.tensors) == set(arrays_of(module))
    assert nnx.LoRAParam.__name__ == "LoRAParam"
