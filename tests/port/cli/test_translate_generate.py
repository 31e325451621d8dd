"""`port translate --generate`: it writes generate.py, or says why it cannot."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
import torch
from torch import Tensor, nn

from port.cli import main


class Encoder(nn.Module):
    """Tokens that see those behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(13, 6), nn.Linear(6, 13)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        return self.head(torch.softmax(x @ x.transpose(1, 2), dim=-1) @ x)


class Running(Encoder):
    """Tokens that meet in a sum, and no attention."""

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.tokens(ids).cumsum(1))


class Images(nn.Module):
    """No language at all."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


HERE = "tests.port.cli.test_translate_generate"
TOKENS = ("--input", "2,7:int64")
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "an encoder": (
        (f"{HERE}:Encoder", *TOKENS),
        "Encoder is not causal: the logits of token 0 of 24 change with the",
    ),
    "a sum": ((f"{HERE}:Running", *TOKENS), "cumsum of [2, 7, 6] over the tokens"),
    "images": (
        (f"{HERE}:Images", "--input", "1,3,8,8"),
        "Images cannot be called with tokens alone, integers (batch, tokens)",
    ),
    "a stack": ((f"{HERE}:Encoder", *TOKENS, "--scan"), "leave --scan out"),
    "a part": ((f"{HERE}:Encoder", *TOKENS, "--submodule", "head"), "leave --submodule out"),
    "without values": ((f"{HERE}:Encoder", *TOKENS, "--meta"), "leave --meta and --prove-at out"),
}
OF_TRANSFORMERS: dict[str, tuple[tuple[str, ...], str]] = {
    "no head": (("transformers:BertModel",), "BertModel does not generate text"),
    "an encoder with a decoder": (("transformers:T5ForConditionalGeneration",), "an encoder with a decoder"),
    "a recurrence": (("transformers:MambaForCausalLM",), "keeps the state of a convolution"),
    "an encoder": (("transformers:BertLMHeadModel",), "BertLMHeadModel is not causal"),
}


def refused(arguments: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of what it does not do; nothing is written."""
    assert main(["translate", *arguments, "--generate", "-o", str(folder), "--sizes-limit", "0"]) == 2
    assert not folder.exists()
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, said = REFUSED[name]
    assert said in refused(arguments, tmp_path / "ported", capsys)


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_what_is_refused_of_transformers(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="an extra of the tests'")
    arguments, said = OF_TRANSFORMERS[name]
    assert said in refused(arguments, tmp_path / "ported", capsys)


def module_of(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"written_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # where dataclass looks for it
    spec.loader.exec_module(made)
    return made


@pytest.mark.sweep
@pytest.mark.parametrize("alone", [(), ("--standalone",)], ids=["with port", "standalone"])
def test_a_model_of_ones_own(alone: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ported"
    options = ["--input", "3,7:int64", "--sizes-limit", "0", "--json", "-o", str(out)]
    assert main(["translate", "tests.port.translation.zoo.llama:Llama", *options, "--generate", *alone]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"logits with caches, at every position", "the likeliest tokens' logits"} <= {row["what"] for row in rows}
    text, model = module_of(out / "generate.py"), module_of(out / "llama.py").load()
    imports_port = re.search(r"^(from|import) port\b", (out / "generate.py").read_text(), re.MULTILINE)
    assert bool(imports_port) != bool(alone)
    ids = jnp.asarray([[3, 1, 4]])
    found = text.generate(text.cached(model), ids, 6)
    for place in range(3, 9):  # the written module itself, of the whole text
        assert int(model(found[:, :place])[0, -1].argmax()) == int(found[0, place])
