"""Modules as projects write them, family by family, for a translator to be tested on.

Each file is one family, and needs torch alone. The code is ordinary on purpose: helper functions, names for every step,
comments, in-place operations, and the styles of different projects side by side.
"""

from __future__ import annotations

from importlib import import_module

from .example import Example

FAMILIES = (
    "autoencoders",
    "buffers",
    "conditional",
    "containers",
    "convnets",
    "fourier",
    "gpt",
    "indexing",
    "inplace",
    "llama",
    "metric",
    "modern_convnets",
    "precision",
    "projections",
    "randomness",
    "recurrent",
    "relative_position",
    "resampling",
    "rotary",
    "sharing",
    "signatures",
    "small_convnets",
    "transformers",
    "unet",
    "vision_transformer",
    "weights_in_forward",
    "refused",
)

EXAMPLES: tuple[Example, ...] = tuple(
    example for family in FAMILIES for example in import_module(f".{family}", __name__).EXAMPLES
)

__all__ = ["EXAMPLES", "Example"]
