"""Inputs that a model of ``transformers`` takes, drawn from what its configuration says: tokens, pixels, sound."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from math import prod
from typing import Any

import torch

from port.errors import UsageError
from port.translation.frontend.example_inputs import Given
from port.translation.hub.hub_model import HubModel

BATCH, TOKENS, ANSWERED = 2, 11, 7
"""Examples of a batch, their tokens, and those of a decoder beside an encoder."""
PLACES = 24
"""For tokens, in the caches of a model that generates."""
WINDOW_KEYS = 13
"""Keys that its layers with a sliding window read from their caches."""
FRAMES = 12
"""Of sound, behind the convolutions that take it in."""
SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id", "mask_token_id")
SEED = 0
MOST_PARAMETERS = 60_000_000
"""Of a model that is run to see what it takes."""
Call = dict[str, torch.Tensor]


def example_calls(model: HubModel, config: Any) -> list[Given]:
    """Example calls that a model takes: one, and for text another with a mask over padding.

    Args:
        model: of ``transformers``.
        config: its own, or a smaller one whose inputs are also the model's.

    Raises:
        UsageError: none that the configuration says is taken; gives the model's own words.
    """
    takes = set(inspect.signature(model.model_class.forward).parameters)
    generator = torch.Generator().manual_seed(SEED)
    drawn = {name: tensor for name, tensor in _drawn(config, generator) if name in takes}
    main = getattr(model.model_class, "main_input_name", "input_ids")
    first = {name: drawn[name] for name in (main,) if name in drawn}
    why = ""
    for call in _more_and_more(first, drawn):
        why = refused(model, config, (), call)
        if not why:
            return [((), one) for one in (call, *_with_mask(model, config, call, takes))]
    raise UsageError(
        f"{model.name} takes none of the inputs that its configuration says ({', '.join(drawn) or 'none'}): {why}. "
        "Give it some, by --inputs module:function"
    )


def _drawn(config: Any, generator: torch.Generator) -> Iterator[tuple[str, torch.Tensor]]:
    """What a configuration says of each kind of input."""
    text, vision = getattr(config, "text_config", config), getattr(config, "vision_config", config)
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
        shape = (BATCH, getattr(vision, "num_channels", 3), height, width)
        yield "pixel_values", torch.randn(shape, generator=generator)
    if (bins := getattr(config, "num_mel_bins", None)) is not None and hasattr(config, "max_source_positions"):
        yield "input_features", torch.randn((BATCH, bins, 2 * config.max_source_positions), generator=generator)
    elif bins is not None and hasattr(config, "max_length"):
        yield "input_values", torch.randn((BATCH, config.max_length, bins), generator=generator)
    elif (strides := getattr(config, "conv_stride", None)) is not None:
        yield "input_values", torch.randn((BATCH, FRAMES * prod(strides)), generator=generator)


def _said(config: Any, name: str) -> int:
    """A token's number; -1 where there is none."""
    value = getattr(config, name, None)
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, int) else -1


def _more_and_more(first: Call, drawn: Call) -> Iterator[Call]:
    """Calls with one input more each."""
    call = dict(first)
    if call:
        yield dict(call)
    for name, tensor in drawn.items():
        if name not in call:
            call[name] = tensor
            yield dict(call)


def _with_mask(model: HubModel, config: Any, call: Call, takes: set[str]) -> list[Call]:
    """The same call with two sentences of different lengths, where the model takes a mask over tokens."""
    if "input_ids" not in call or "attention_mask" not in takes:
        return []
    mask = torch.ones(call["input_ids"].shape, dtype=torch.long)
    mask[0, TOKENS - 4 :] = 0
    masked = {**call, "attention_mask": mask}
    return [] if refused(model, config, (), masked) else [masked]


def refused(model: HubModel, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a model says of a call; empty where it takes it.

    Args:
        model: of ``transformers``.
        config: with which it is built, if it is not too large for that.
        args: of the call.
        kwargs: those by name.
    """
    try:
        with torch.device("meta"):
            count = sum(one.numel() for one in model.build(config).parameters())
        if count > MOST_PARAMETERS:
            return f"it has {count:,} parameters, too many to try what it takes"
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model.build(config)(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return ""
