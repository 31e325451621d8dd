"""`port translate transformers:…`: from a folder to the source, and to the real model with the folder's weights."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from port.cli import main

transformers = pytest.importorskip("transformers", reason="an extra of the tests'")

LLAMA = {
    "vocab_size": 90,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 64,
}
BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no class": (("transformers:LamaModel",), "LlamaModel"),
    "no folder": (("transformers:./nowhere",), "nowhere has no config.json"),
    "weights": (("transformers:BertModel", "--weights", "a.pth"), "of transformers is written without values"),
    "a field that is none": (("transformers:BertModel", "--kwargs", '{"hidden": 3}'), "hidden_size"),
    "a part that is none": (("transformers:BertModel", "--kwargs", '{"vocab_size": 60}', "--submodule", "x"), "x"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, said = BAD[name]
    assert main(["translate", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.sweep
def test_a_folder_is_proved_small_and_run_with_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import jax
    from flax import nnx

    import port

    torch.manual_seed(0)
    config = transformers.LlamaConfig(**LLAMA)
    model = transformers.LlamaForCausalLM(config).double().eval()
    model.save_pretrained(tmp_path / "llama")
    monkeypatch.chdir(tmp_path)
    assert main(["translate", "transformers:./llama", "-o", "ported", "--sizes-limit", "0", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["status"] == "agree"
    assert "LlamaForCausalLM is proved at num_hidden_layers = 2, hidden_size = 24" in printed.err
    # The report's own lines, at the real size.
    snippet = (tmp_path / "ported" / "report.md").read_text().partition("```python\n")[2].partition("```")[0]
    made = next(line for line in snippet.splitlines() if line.startswith("model = "))
    assert made.startswith("model = LlamaForCausalLM(config=LlamaConfig(vocab_size=90, hidden_size=96,"), made
    monkeypatch.syspath_prepend(str(tmp_path / "ported"))
    written = importlib.import_module("llamaforcausallm")
    ids = torch.randint(3, 90, (2, 17))
    try:
        with jax.enable_x64(True):
            names = {**vars(written), "nnx": nnx}
            ours = eval(made.removeprefix("model = ").replace("rngs=", "param_dtype=jnp.float64, rngs="), names)
            port.load(ours, "llama", rename="ported/llamaforcausallm.mapping.toml")
            ours.eval()
            found: Any = ours(ids.numpy())["logits"]
    finally:
        sys.modules.pop("llamaforcausallm")
    with torch.no_grad():
        expected = model(ids).logits.numpy()
    # Its norms and its rotation compute in float32, also in a float64 model, and JAX adds in another order there.
    assert np.abs(np.asarray(found) - expected).max() / np.abs(expected).max() < 1e-6
