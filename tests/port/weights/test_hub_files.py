"""A folder of the hub, there and back: every bit, the config and the tokenizer untouched; transformers loads it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import open_checkpoint, write_checkpoint
from port.weights.conversion import convert
from port.weights.hub_files import files_beside
from tests.port.weights.some_tensors import some, tensors_of

BESIDE = {
    "config.json": '{"model_type": "net",   "untouched": [1, 2]}',
    "tokenizer.json": '{"a":"ü"}\n\n',
    "tokenizer.model": "\x00\x01",
    "README.md": "# a model",
}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 8)
        self.up = torch.nn.Linear(8, 24)
        self.norm = torch.nn.LayerNorm(24)


def hub(folder: Path) -> Path:
    torch.manual_seed(0)
    arrays = {name: tensor.numpy() for name, tensor in Net().state_dict().items()}
    write_checkpoint(folder, tensors_of(arrays), format="safetensors", max_shard_size=900, metadata={"format": "pt"})
    for name, text in BESIDE.items():
        (folder / name).write_text(text)
    (folder / ".gitattributes").write_text("hidden")
    return folder


def there(tmp_path: Path) -> Path:
    convert(hub(tmp_path / "hub"), tmp_path / "flax.orbax", torch=Net(), mesh="fsdp=4")
    return tmp_path / "flax.orbax"


def test_there_and_back(tmp_path: Path) -> None:
    convert(there(tmp_path), tmp_path / "back", reverse=True, format="hf", like=tmp_path / "hub", max_shard_size=900)
    with open_checkpoint(tmp_path / "hub") as first, open_checkpoint(tmp_path / "back") as second:
        assert set(first.tensors) == set(second.tensors)
        for name in first.tensors:
            assert first.read(name).tobytes() == second.read(name).tobytes()
    for name in BESIDE:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "hub" / name).read_bytes()
    assert not (tmp_path / "back" / ".gitattributes").exists()
    index = json.loads((tmp_path / "back" / "model.safetensors.index.json").read_text())
    shards = set(index["weight_map"].values())
    assert len(shards) > 1
    assert all((tmp_path / "back" / shard).is_file() for shard in shards)


def test_small_it_is_one_file_and_without_a_folder_it_says_so(tmp_path: Path) -> None:
    done = convert(there(tmp_path), f"{tmp_path}/back/", reverse=True, format="hf")
    assert [path.name for path in done.files] == ["model.safetensors"]
    assert any("no config.json" in remark for remark in done.remarks)


def test_what_it_replaces(tmp_path: Path) -> None:
    flax = there(tmp_path)
    options = {"reverse": True, "format": "hf", "like": tmp_path / "hub"}
    convert(flax, tmp_path / "back", **options)
    with pytest.raises(UsageError, match="is there already"):
        convert(flax, tmp_path / "back", **options)
    convert(flax, tmp_path / "back", overwrite=True, **options)
    (tmp_path / "back" / "results.pt").touch()
    with pytest.raises(UsageError, match=r"not one that the weights may replace: results\.pt in it .* would be lost"):
        convert(flax, tmp_path / "back", overwrite=True, **options)


@pytest.mark.parametrize("foreign", ["thesis.txt", "train.py", "other.safetensors", "runs/log"])
def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path, foreign: str) -> None:
    flax, out = there(tmp_path), hub(tmp_path / "out")
    (out / foreign).parent.mkdir(exist_ok=True)
    (out / foreign).touch()
    before = sorted(out.iterdir())
    with pytest.raises(UsageError, match=f"{foreign.partition('/')[0]} in it is no part of a checkpoint"):
        convert(flax, out, reverse=True, format="hf", overwrite=True)
    assert sorted(out.iterdir()) == before


def test_what_stands_beside_the_weights_stays(tmp_path: Path) -> None:
    flax, out = there(tmp_path), hub(tmp_path / "out")
    (out / "modeling_net.py").write_text("own = 1")
    (out / "config.json").write_text("{}")
    done = convert(flax, out, reverse=True, format="hf", overwrite=True)
    assert {path.name for path in done.files} == {*BESIDE, "modeling_net.py", "model.safetensors", ".gitattributes"}
    assert (out / "config.json").read_text() == "{}" and (out / "modeling_net.py").read_text() == "own = 1"
    assert not any("no config.json" in remark for remark in done.remarks)
    convert(flax, out, reverse=True, format="hf", overwrite=True, like=tmp_path / "hub")
    assert (out / "config.json").read_text() == BESIDE["config.json"]
    assert (out / "modeling_net.py").read_text() == "own = 1"


def test_other_folders_with_something_else_are_not_replaced_either(tmp_path: Path) -> None:
    flax = there(tmp_path)
    (flax / "thesis.txt").touch()
    with pytest.raises(UsageError, match=r"thesis\.txt in it is no part of a checkpoint"):
        convert(tmp_path / "hub", flax, torch=Net(), overwrite=True)
    (tmp_path / "sharded").mkdir()
    (tmp_path / "sharded" / "mine.safetensors").touch()
    with pytest.raises(UsageError, match=r"mine\.safetensors in it is no part"):
        convert(tmp_path / "hub", tmp_path / "sharded", torch=Net(), overwrite=True, max_shard_size=900)
    (flax / "thesis.txt").unlink()
    convert(tmp_path / "hub", flax, torch=Net(), overwrite=True)


def test_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flax = there(tmp_path)
    gone = files_beside(tmp_path / "hub")
    monkeypatch.setattr("port.weights.conversion.files_beside", lambda folder: [*gone, tmp_path / "hub" / "gone.json"])
    with pytest.raises(BrokenWeights, match=r"gone\.json cannot be copied"):
        convert(flax, tmp_path / "back", reverse=True, format="hf", like=tmp_path / "hub")
    assert {path.name for path in tmp_path.iterdir()} == {"hub", "flax.orbax"}


def test_what_is_refused(tmp_path: Path) -> None:
    flax = there(tmp_path)
    with pytest.raises(UsageError, match=r"is not a folder of the hub: it has no config\.json"):
        convert(flax, tmp_path / "back", reverse=True, format="hf", like=tmp_path)
    with pytest.raises(UsageError, match="format='hf'; not into safetensors"):
        convert(flax, tmp_path / "b.safetensors", reverse=True, like=tmp_path / "hub")
    with pytest.raises(UsageError, match="Flax variables are not written as hf"):
        convert(tmp_path / "hub", tmp_path / "back", torch=Net(), format="hf")


@pytest.mark.sweep
def test_transformers_loads_what_comes_back(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "hub", max_shard_size="20KB")
    assert len(list((tmp_path / "hub").glob("*.safetensors"))) > 1
    convert(tmp_path / "hub", tmp_path / "flax.orbax", flax=_twin(config), mesh="fsdp=4")
    convert(
        tmp_path / "flax.orbax",
        tmp_path / "back",
        reverse=True,
        format="hf",
        like=tmp_path / "hub",
        max_shard_size=20000,
    )
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    for (name, ours), (other, theirs) in zip(again.state_dict().items(), model.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(ours, theirs), name
    ids = torch.randint(0, 96, (2, 7))
    with torch.no_grad():
        assert torch.equal(again(ids).logits, model(ids).logits)


def _twin(config):
    """A Flax model with the names and shapes of the original's layers: nothing of it is run."""
    from flax import nnx

    width, inner, heads = config.hidden_size, config.intermediate_size, config.num_key_value_heads
    narrow = width // config.num_attention_heads * heads

    class Holder(nnx.Module):
        def __init__(self, **held) -> None:
            for name, value in held.items():
                setattr(self, name, value)

    def linear(a: int, b: int, rngs: nnx.Rngs) -> nnx.Linear:
        return nnx.Linear(a, b, use_bias=False, rngs=rngs)

    def layer(rngs: nnx.Rngs) -> Holder:
        return Holder(
            self_attn=Holder(
                q_proj=linear(width, width, rngs),
                k_proj=linear(width, narrow, rngs),
                v_proj=linear(width, narrow, rngs),
                o_proj=linear(width, width, rngs),
            ),
            mlp=Holder(
                gate_proj=linear(width, inner, rngs),
                up_proj=linear(width, inner, rngs),
                down_proj=linear(inner, width, rngs),
            ),
            input_layernorm=nnx.RMSNorm(width, rngs=rngs),
            post_attention_layernorm=nnx.RMSNorm(width, rngs=rngs),
        )

    def whole() -> Holder:
        rngs = nnx.Rngs(0)
        return Holder(
            model=Holder(
                embed_tokens=nnx.Embed(config.vocab_size, width, rngs=rngs),
                layers=nnx.List([layer(rngs) for _ in range(config.num_hidden_layers)]),
                norm=nnx.RMSNorm(width, rngs=rngs),
            ),
            lm_head=linear(width, config.vocab_size, rngs),
        )

    return nnx.eval_shape(whole)


def test_what_stands_beside_the_weights(tmp_path: Path) -> None:
    folder = hub(tmp_path / "hub")
    (folder / "pytorch_model.bin").write_bytes(some("uint8", (4,)).tobytes())
    (folder / "original").mkdir()
    assert [path.name for path in files_beside(folder)] == sorted(BESIDE)
    assert np.all([path.parent == folder for path in files_beside(folder)])
