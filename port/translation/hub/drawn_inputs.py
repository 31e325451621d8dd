"""Draw inputs of the sizes in a ``transformers`` configuration: tokens, pixels, sound."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import torch

BATCH, TOKENS, ANSWERED = 2, 11, 7
"""Examples of a batch, tokens of each, and tokens of a decoder that has an encoder."""
CHOICES = 3
"""Answers to choose from, each with its tokens."""
PLACES = 24
"""Places for tokens in the caches of a model that generates."""
WINDOW_KEYS = 13
"""Keys that its layers with a sliding window read from their caches."""
FRAMES = 12
"""Frames of sound after the convolutions."""
SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id", "mask_token_id")
SEEING = ("vision_config", "backbone_config")
"""Nested configurations of the part that takes images."""
SEED = 0
SIZES = {
    "vocab_size": "input_ids",
    "image_size": "pixel_values",
    "num_mel_bins": "input_features",
    "conv_stride": "input_values",
}
"""Field → the input whose size it gives."""


def drawn_inputs(config: Any) -> dict[str, torch.Tensor]:
    """Return an input of each kind that the configuration describes, by the name of the model's argument.

    Args:
        config: a configuration of ``transformers``.
    """
    return dict(_drawn(config, torch.Generator().manual_seed(SEED)))


def with_choices(drawn: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the inputs with several texts to choose from in each example.

    Args:
        drawn: inputs with one text in each example.
    """
    return {name: _chosen(tensor) if name == "input_ids" else tensor for name, tensor in drawn.items()}


def _chosen(tokens: torch.Tensor) -> torch.Tensor:
    return torch.stack([tokens.roll(by, dims=1) for by in range(CHOICES)], dim=1)


def _drawn(config: Any, generator: torch.Generator) -> Iterator[tuple[str, torch.Tensor]]:
    text = getattr(config, "text_config", config)
    vision = next((one for name in SEEING if (one := getattr(config, name, None)) is not None), config)
    if (count := getattr(text, "vocab_size", None)) is not None:
        special = [_said(text, name) for name in SPECIAL]
        first = min(max([one for one in special if 0 <= one < 10], default=-1) + 1, count - 1)
        last = min([one for one in special if one >= 10] + [count])
        yield "input_ids", torch.randint(first, max(last, first + 1), (BATCH, TOKENS), generator=generator)
        yield "position", torch.tensor(0)
        yield "places", torch.arange(PLACES)
        yield "window_positions", torch.arange(WINDOW_KEYS)
        yield "decoder_input_ids", torch.randint(first, max(last, first + 1), (BATCH, ANSWERED), generator=generator)
    if (size := getattr(vision, "image_size", None)) is not None or hasattr(vision, "num_channels"):
        size = 64 if size is None else size
        height, width = size if isinstance(size, list | tuple) else (size, size)
        frames = getattr(vision, "num_frames", None)  # of a film
        examples = (BATCH, frames) if isinstance(frames, int) else (BATCH,)
        shape = (*examples, getattr(vision, "num_channels", 3), height, width)
        yield "pixel_values", torch.randn(shape, generator=generator)
    if (bins := getattr(config, "num_mel_bins", None)) is not None and hasattr(config, "max_source_positions"):
        yield "input_features", torch.randn((BATCH, bins, 2 * config.max_source_positions), generator=generator)
    elif bins is not None and hasattr(config, "max_length"):
        yield "input_values", torch.randn((BATCH, config.max_length, bins), generator=generator)
    elif (strides := getattr(config, "conv_stride", None)) is not None:
        yield "input_values", torch.randn((BATCH, FRAMES * prod(strides)), generator=generator)


def _said(config: Any, name: str) -> int:
    """Return a token's number; -1 if there is none."""
    value = getattr(config, name, None)
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, int) else -1
