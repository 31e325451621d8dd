"""Whole models, of torchvision's and of our own: what is written for them lies in ``golden/``, to the letter.

Where the text is meant to change, ``PORT_UPDATE_GOLDEN=1 pytest -m sweep tests/port/translation/test_golden.py`` writes
the files anew; what changed is then seen in the commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision

import port
from port.translation import argument_validation

from .golden_models import GPT, GPTConfig, MixtureOfExperts, UNet

GOLDEN = Path(__file__).parent / "golden"
IMAGES = torch.zeros(2, 3, 64, 64)
TORCHVISION: dict[str, Callable[[], torch.nn.Module]] = {
    "resnet18": torchvision.models.resnet18,
    "vit_b_16": lambda: torchvision.models.vit_b_16(image_size=64),
}
OWN: dict[str, tuple[Callable[[], torch.nn.Module], torch.Tensor]] = {
    "gpt": (lambda: GPT(GPTConfig(vocabulary=61)), torch.zeros(2, 11, dtype=torch.int64)),
    "mixture_of_experts": (lambda: MixtureOfExperts(12, 4), torch.linspace(-1, 1, 168).reshape(2, 7, 12)),
    "unet": (UNet, IMAGES),
}


def llama() -> torch.nn.Module:
    """A small LLaMA of transformers, with the attention of its own source."""
    from transformers import LlamaConfig, LlamaModel

    sizes = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaModel(LlamaConfig(**sizes, **heads, use_cache=False, attn_implementation="eager"))


def swin(
    embed_dim: int = 8, depths: Sequence[int] = (2, 4), num_heads: Sequence[int] = (2, 4), **options: Any
) -> torch.nn.Module:
    """A small Swin of torchvision: at 36 pixels each stage has several of its windows of 4."""
    sizes = {"depths": list(depths), "num_heads": list(num_heads), "window_size": [4, 4]}
    return torchvision.models.SwinTransformer([4, 4], embed_dim, **sizes, **options)


def check_golden(name: str, source: str) -> None:
    """Check that a source equals the golden file, or write that file."""
    path = GOLDEN / f"{name}.py.txt"
    if os.environ.get("PORT_UPDATE_GOLDEN") == "1":
        path.write_text(source, encoding="utf-8")
    assert source == path.read_text(encoding="utf-8")


@pytest.mark.sweep
@pytest.mark.parametrize("name", OWN)
def test_the_source_of_a_model_of_our_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    construct, given = OWN[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = construct()
    monkeypatch.chdir(tmp_path)
    translation = port.translate(module, given, name=name, construct=construct)
    assert translation.proof is not None and translation.proof.agrees
    check_golden(name, translation.source)


@pytest.mark.sweep
@pytest.mark.parametrize("name", TORCHVISION)
def test_the_source_of_a_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = TORCHVISION[name]()
    # Imports are sorted by what the folder holds that it runs in.
    monkeypatch.chdir(tmp_path)
    source = port.translate(module, IMAGES, name=name, check=False, construct=TORCHVISION[name]).source
    check_golden(name, source)


@pytest.mark.sweep
def test_the_source_of_a_model_whose_layers_take_different_branches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, images = swin(), torch.linspace(-1, 1, 7776).reshape(2, 3, 36, 36)
    other = {"mlp_ratio": 2.0, "stochastic_depth_prob": 0.2, "num_classes": 7}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(argument_validation, "_MOST", 0)  # what the other shows is enough
    options: dict[str, Any] = {"static": True, "at": [partial(swin, 12, (4, 2), (3, 6), **other)], "sizes_limit": 0.0}
    translation = port.translate(module, images, name="swin", construct=swin, **options)
    assert translation.proof is not None and translation.proof.agrees
    check_golden("swin", translation.source)


@pytest.mark.sweep
def test_the_source_of_a_model_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = llama()
    monkeypatch.chdir(tmp_path)
    translation = port.translate(module, torch.zeros(2, 11, dtype=torch.int64), name="llama", construct=llama)
    assert translation.proof is not None and translation.proof.agrees
    check_golden("llama", translation.source)
