"""Models of ``transformers`` from their configurations alone: proved at a small size, written at their real one.

`python tests/port/translation/hub/test_architectures.py [NAME …]` prints the table of what is measured.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.cli import main
from port.errors import PortError
from port.translation.hub.hub_model import hub_model
from port.translation.hub.small_config import small_config
from port.translation.result import Translation
from port.translation.translating import translate
from port.translation.verify.proof import Proof

pytest.importorskip("transformers", reason="an extra of the tests'")

ARCHITECTURES: Mapping[str, tuple[str, ...]] = {
    "text, an encoder": (
        "BertModel",
        "RobertaModel",
        "ElectraModel",
        "MPNetModel",
        "DistilBertModel",
        "AlbertModel",
    ),
    "text, a decoder": (
        "GPT2LMHeadModel",
        "GPTNeoXForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "PhiForCausalLM",
        "Gemma2ForCausalLM",
    ),
    "text, both": ("T5Model", "BartModel"),
    "images": ("ViTModel", "DeiTModel", "SwinModel", "ConvNextModel", "Dinov2Model"),
    "images and text": ("CLIPModel", "CLIPTextModel", "SiglipModel"),
    "speech": ("WhisperModel", "Wav2Vec2Model", "HubertModel"),
    "a mixture of experts": ("MixtralForCausalLM", "OlmoeForCausalLM", "Qwen3MoeForCausalLM"),
}
NAMES = [name for names in ARCHITECTURES.values() for name in names]


@cache
def translated(name: str) -> Translation:
    """The small model that stands for a class, with weights, and its translation: both are compared."""
    model = hub_model(f"transformers:{name}", {})
    small = small_config(model)
    torch.manual_seed(0)
    return translate(model.build(small.config), cases=list(small.calls))


@pytest.mark.sweep
@pytest.mark.daily(8)
@pytest.mark.parametrize("name", NAMES)
def test_proved_small(name: str) -> None:
    proof = translated(name).proof
    assert proof is not None
    assert proof.agrees, str(proof)


@pytest.mark.sweep
@pytest.mark.daily(15)
@pytest.mark.parametrize("name", NAMES)
def test_written_at_its_real_size(name: str, tmp_path: Path) -> None:
    """The command as one types it: the real size is written, on no numbers, and the small one is compared."""
    assert main(["translate", f"transformers:{name}", "-o", str(tmp_path / "ported"), "--sizes-limit", "0"]) == 0


@pytest.mark.sweep
def test_a_wrong_epsilon_is_found() -> None:
    made = translated("BertModel")
    faulty = replace(made, source=re.sub(r"epsilon=[^,)]+", "epsilon=1e-3", made.source))
    assert faulty.source != made.source
    small = small_config(hub_model("transformers:BertModel", {}))
    torch.manual_seed(0)
    original = hub_model("transformers:BertModel", {}).build(small.config)
    inputs = small.calls[0][1]
    assert apart(made, original, inputs) < 1e-12
    assert apart(faulty, original, inputs) > 1e-6


def apart(made: Translation, original: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """How far the last hidden states of both sides are apart, in float64, with the weights that were translated."""
    with torch.no_grad():
        theirs = original.double()(**inputs).last_hidden_state.numpy()
    with jax.enable_x64(True):
        flax = made.build(param_dtype=jnp.float64)
        flax.eval()
        ours = np.asarray(flax(**{name: jnp.asarray(one.numpy()) for name, one in inputs.items()})["last_hidden_state"])
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def largest(proof: Proof, kind: str) -> str:
    """The largest difference among the rows of a kind, in evaluation and in training."""
    return f"{max(row.difference for row in proof.rows if row.what.startswith(kind)):.1e}"


def table() -> None:
    """Print the table of the small proofs."""
    print("| | model | outputs | gradients | seconds |")
    print("|---|---|---|---|---|")
    wanted = sys.argv[1:] or NAMES
    for kind, names in ARCHITECTURES.items():
        for name in [one for one in names if one in wanted]:
            start = time.time()
            try:
                proof: Any = translated(name).proof
            except PortError as error:
                print(f"| {kind} | {name} | {str(error).splitlines()[0]} | | {time.time() - start:.0f} |", flush=True)
                continue
            found = (
                (largest(proof, "outputs"), largest(proof, "gradients"))
                if proof.agrees
                else (f"**{proof.status.name}**", "")
            )
            print(f"| {kind} | {name} | {found[0]} | {found[1]} | {time.time() - start:.0f} |", flush=True)


if __name__ == "__main__":
    table()
