"""A vocabulary that the Flax model pads: by a mapping file, into a module, a file, onto a mesh, and back."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import port
from port.cli import main
from port.errors import WeightsMismatch
from port.mapping import read_mapping, save_mapping
from port.weights.files import read_arrays, write_arrays

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)

MODELS = """
import jax.numpy as jnp
import torch
from flax import nnx


class Torch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 6)
        self.head = torch.nn.Linear(6, 11)

    def forward(self, ids):
        return self.head(torch.tanh(self.tokens(ids)))


class Padded(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs, vocabulary=16, param_dtype=jnp.float32):
        self.tokens = nnx.Embed(vocabulary, 6, rngs=rngs, param_dtype=param_dtype)
        self.head = nnx.Linear(6, vocabulary, rngs=rngs, param_dtype=param_dtype)

    def __call__(self, ids):
        return self.head(jnp.tanh(self.tokens(ids)))
"""
RULES = """
[[rule]]
source = 'tokens\\.weight'
target = 'tokens.embedding'
moves = [{pad = 16}]

[[rule]]
source = 'head\\.weight'
target = 'head.kernel'
moves = [{pad = 16}, {permute = [1, 0]}]

[[rule]]
source = 'head\\.bias'
target = 'head.bias'
moves = [{pad = {to = 16, value = -1e4}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "padded_models", raising=False)
    (tmp_path / "padded_models.py").write_text(MODELS)
    (tmp_path / "rules.toml").write_text(RULES)
    torch.manual_seed(3)
    port.save(models().Torch().double(), tmp_path / "w.safetensors")
    return tmp_path


def models():
    import padded_models

    return padded_models


def test_both_models_say_the_same_and_the_padding_says_nothing(folder):
    with jax.enable_x64(True):
        net, module = models().Padded(rngs=nnx.Rngs(0), param_dtype=jnp.float64), models().Torch().double()
        port.load(module, folder / "w.safetensors")
        port.load(net, folder / "w.safetensors", rename=folder / "rules.toml")
        ids = np.array([[1, 10, 0, 4]])
        wanted = torch.log_softmax(module(torch.from_numpy(ids)), -1).detach().numpy()
        got = np.asarray(jax.nn.log_softmax(net(ids)))
        assert np.abs(got[..., :11] - wanted).max() < 1e-12
        assert (got[..., 11:] < -9e3).all()
        net.head.bias[...] = jnp.zeros(16)  # a padding that takes part
        assert np.abs(np.asarray(jax.nn.log_softmax(net(ids)))[..., :11] - wanted).max() > 1e-3


def test_a_converted_file_goes_back_by_itself(folder):
    options = ["w.safetensors", "--flax", "padded_models:Padded", "--mapping", "rules.toml"]
    assert main(["convert", *options, "-o", "f.safetensors", "--save-mapping", "whole.toml"]) == 0
    assert read_arrays(folder / "f.safetensors")["params.tokens.embedding"].shape == (16, 6)
    assert main(["convert", "f.safetensors", "--reverse", "-o", "back.safetensors"]) == 0
    before, after = read_arrays(folder / "w.safetensors"), read_arrays(folder / "back.safetensors")
    assert {name: array.tobytes() for name, array in before.items()} == {n: a.tobytes() for n, a in after.items()}
    mapping = read_mapping(folder / "whole.toml")
    save_mapping(mapping, folder / "again.toml")
    assert read_mapping(folder / "again.toml") == mapping
    assert "pad(axis 0 from 11 to 16 with -10000)" in str(mapping)


def test_a_padding_that_was_trained_is_not_dropped(folder, capsys):
    options = ["w.safetensors", "--flax", "padded_models:Padded", "--mapping", "rules.toml"]
    assert main(["convert", *options, "-o", "f.safetensors", "--save-mapping", "whole.toml"]) == 0
    arrays = {name: array.copy() for name, array in read_arrays(folder / "f.safetensors").items()}
    arrays["params.tokens.embedding"][13, 2] = 1e-30
    write_arrays(folder / "trained.safetensors", arrays)
    back = ["trained.safetensors", "--reverse", "--flax", "padded_models:Padded", "--mapping", "whole.toml"]
    assert main(["convert", *back, "-o", "back.safetensors"]) == 2
    said = capsys.readouterr().err
    assert "tokens.embedding → tokens.weight" in said
    assert "not padding: they hold 1e-30" in said
    assert "Traceback" not in said
    assert not (folder / "back.safetensors").exists()


def test_each_device_reads_its_part(folder):
    mesh = jax.make_mesh((4,), ("fsdp",), axis_types=(AxisType.Auto,))
    table = {"tokens.embedding": P("fsdp"), "head.kernel": P(None, "fsdp"), "head.bias": P("fsdp")}
    net = nnx.eval_shape(lambda: models().Padded(rngs=nnx.Rngs(0)))
    given = {"mesh": mesh, "sharding": table, "dtype": "float32"}
    done = port.load(net, folder / "w.safetensors", rename=folder / "rules.toml", **given)
    whole = models().Padded(rngs=nnx.Rngs(0))
    port.load(whole, folder / "w.safetensors", rename=folder / "rules.toml")
    for path, variable in nnx.to_flat_state(nnx.state(net)):
        right = dict(nnx.to_flat_state(nnx.state(whole)))[path][...]
        assert np.array_equal(np.asarray(variable[...]), np.asarray(right)), path
        assert not variable[...].sharding.is_fully_replicated
    assert done.nbytes_read == done.nbytes


@pytest.mark.parametrize("row", [12, 13, 15])
def test_a_mesh_finds_what_is_no_padding(folder, row):
    """The checkpoint is padded, the model is not; the model's rows are cut over the devices."""
    arrays = {"tokens.weight": np.zeros((16, 6)), "head.weight": np.ones((12, 6)), "head.bias": np.ones(12)}
    arrays["tokens.weight"][:12] = 1
    rule = RULES.split("[[rule]]")[1].replace("pad = 16", "unpad = 12")
    (folder / "unpad.toml").write_text(f"[[rule]]{rule}")
    mesh = jax.make_mesh((4,), ("fsdp",), axis_types=(AxisType.Auto,))

    def loaded():
        write_arrays(folder / "p.safetensors", arrays)
        net = nnx.eval_shape(lambda: models().Padded(vocabulary=12, rngs=nnx.Rngs(0)))
        sharding = {"tokens.embedding": P("fsdp"), ".*": P()}
        port.load(
            net, folder / "p.safetensors", rename=folder / "unpad.toml", mesh=mesh, sharding=sharding, dtype="float32"
        )
        return net

    assert np.asarray(loaded().tokens.embedding[...]).tolist() == np.ones((12, 6)).tolist()
    arrays["tokens.weight"][row, 3] = 0.5
    with pytest.raises(WeightsMismatch, match=r"tokens.weight → tokens.embedding .*not padding: they hold 0.5"):
        loaded()


def test_a_length_that_is_not_the_model_s(folder):
    (folder / "short.toml").write_text(RULES.replace("pad = 16}", "pad = 15}", 1))
    with pytest.raises(WeightsMismatch, match=r"it produces shape \(15, 6\), tokens.embedding has \(16, 6\)"):
        port.load(models().Padded(rngs=nnx.Rngs(0)), folder / "w.safetensors", rename=folder / "short.toml")
