"""Twelve architectures of ``transformers``, two layers of 32 each, with inputs and with a larger size of the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
transformers = pytest.importorskip("transformers", reason="an extra of the tests'")

Call = dict[str, Tensor]
LENGTH = 11


@dataclass(frozen=True)
class Architecture:
    """A model of ``transformers``.

    Attributes:
        name: of the class.
        config: the name of its configuration's class.
        small: the configuration's fields.
        larger: those that are others at the larger size: three layers of 48, and another number of heads.
        inputs: makes the example calls.
    """

    name: str
    config: str
    small: dict[str, Any]
    larger: dict[str, Any]
    inputs: Callable[[], list[Call]]

    def build(self) -> torch.nn.Module:
        """The small model, in evaluation, with weights of a seed."""
        return self._built(self.small)

    def build_larger(self) -> torch.nn.Module:
        """The larger one."""
        return self._built({**self.small, **self.larger})

    def _built(self, fields: dict[str, Any]) -> torch.nn.Module:
        torch.manual_seed(0)
        module: torch.nn.Module = _class(self.name)(getattr(transformers, self.config)(**fields))
        return module.eval()


def _class(name: str) -> Any:
    found = getattr(transformers, name, None)
    if found is None:
        from transformers.models.whisper import modeling_whisper

        found = getattr(modeling_whisper, name)
    return found


def _ids() -> Tensor:
    return torch.randint(1, 60, (2, LENGTH))


def _text() -> list[Call]:
    """A sentence by itself, and two of different lengths."""
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[0, 7:] = 0
    return [{"input_ids": _ids()}, {"input_ids": _ids(), "attention_mask": mask}]


def _image() -> list[Call]:
    return [{"pixel_values": torch.randn(2, 3, 16, 16)}]


_BERT = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 8,
}
_LLAMA = {**_BERT, "num_attention_heads": 8, "num_key_value_heads": 2, "use_cache": False}
_LARGER = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 3}
_LARGER_LLAMA = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 12, "num_key_value_heads": 4}
_POSITIONS = {"max_position_embeddings": 40}

ARCHITECTURES = [
    Architecture("BertModel", "BertConfig", {**_BERT, **_POSITIONS}, _LARGER, _text),
    Architecture(
        "GPT2Model",
        "GPT2Config",
        {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40, "use_cache": False},
        {"n_layer": 3, "n_embd": 48, "n_head": 3},
        _text,
    ),
    Architecture("LlamaModel", "LlamaConfig", {**_LLAMA, **_POSITIONS}, _LARGER_LLAMA, _text),
    Architecture("MistralModel", "MistralConfig", {**_LLAMA, "sliding_window": None}, _LARGER_LLAMA, _text),
    Architecture(
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": 60, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, **_POSITIONS},
        {"n_layers": 3, "dim": 48, "n_heads": 3},
        _text,
    ),
    Architecture(
        "ElectraModel",
        "ElectraConfig",
        {**_BERT, "embedding_size": 24, **_POSITIONS},
        {**_LARGER, "embedding_size": 40},
        _text,
    ),
    Architecture(
        "T5EncoderModel",
        "T5Config",
        {"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "use_cache": False},
        {"num_layers": 3, "d_model": 48, "num_heads": 3},
        _text,
    ),
    Architecture("ViTModel", "ViTConfig", _VIT, _LARGER, _image),
    Architecture("CLIPVisionModel", "CLIPVisionConfig", _VIT, _LARGER, _image),
    Architecture(
        "Dinov2Model",
        "Dinov2Config",
        {name: value for name, value in _VIT.items() if name != "intermediate_size"},
        _LARGER,
        _image,
    ),
    Architecture(
        "WhisperEncoder",
        "WhisperConfig",
        {
            "d_model": 32,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "num_mel_bins": 12,
            "max_source_positions": 10,
        },
        {"encoder_layers": 3, "d_model": 48, "encoder_attention_heads": 3},
        lambda: [{"input_features": torch.randn(2, 12, 20)}],
    ),
    Architecture(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        {
            **{name: value for name, value in _BERT.items() if name != "vocab_size"},
            "conv_dim": (16, 16),
            "conv_kernel": (4, 3),
            "conv_stride": (2, 2),
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "num_feat_extract_layers": 2,
            "apply_spec_augment": False,
            "layerdrop": 0.0,
        },
        _LARGER,
        lambda: [{"input_values": torch.randn(2, 120)}],
    ),
]

NAMED = {architecture.name: architecture for architecture in ARCHITECTURES}
