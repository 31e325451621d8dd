"""Find the smallest configuration of a ``transformers`` model that its divisibility allows; the proof is made there.

Layers are reduced to two, or to as many as show every kind of layer or a loop over shared ones; widths, heads and
experts are divided by common divisors. Sizes of inputs and vocabularies stay: both sizes take the same example inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from port.errors import UsageError
from port.translation.frontend.example_inputs import Given
from port.translation.hub.derived_fields import with_fields
from port.translation.hub.dividing import divided, divided_at_most, divisors, is_square, numbers
from port.translation.hub.example_calls import example_calls, refused
from port.translation.hub.fewer_layers import Path, fewer_layers, is_number_of_layers
from port.translation.hub.hub_model import HubModel, reason
from port.translation.hub.shared_layers import rounds_needed

WIDTHS = re.compile(
    r"hidden_sizes?|d_model|n_embd|dim|embed_dim|embedding_size|(.*_)?intermediate_size|d_ff|n_inner|hidden_dim"
    r"|(.*_)?ffn_dim|ffn_hidden_size|projection_(dim|size)|word_embed_proj_dim|q_lora_rank|kv_lora_rank|output_hidden_size"
    r"|conv_dim|neck_hidden_sizes|pooler_output_size|decoder_hidden_size|emb_dim|dff|(in|out)put_embedding_size"
    r"|coordinate_size|shape_size|reassemble_hidden_size"
)
INNER = re.compile(r"(.*_)?intermediate_size|d_ff|(.*_)?ffn_dim|ffn_hidden_size")
HEADS = re.compile(r"(num_|n_|(en|de)coder_)?(attention_|key_value_|kv_)?heads?|num_key_value_heads")
HEAD_WIDTHS = re.compile(r"head_dim|d_kv|qk_(rope|nope)_head_dim|v_head_dim|query_pre_attn_scalar")
ROTATED = re.compile(r"rotary_dim")
"""How much of a head is rotated by its position: the same share of a narrow head."""
HIDDEN = ("hidden_size", "hidden_sizes", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "conv_dim")
NUMBERS_OF_HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads")
NARROWEST = 16
"""The least width of a model's hidden states."""
NARROW = 4
"""The least of any other width, unless the model's is smaller: an axis of length 1 would be broadcast."""
FEWEST_HEADS = 2
DEEP_TRIES = 8
"""Narrow sizes that are tried with all of the model's layers."""
HEAD_WIDTH = 8


@dataclass(frozen=True)
class SmallConfig:
    """A small configuration.

    Attributes:
        config: the configuration.
        settings: the fields that differ from the model's, ``text_config.hidden_size``, with their values.
        calls: example calls that both sizes accept.
    """

    config: Any
    settings: Mapping[str, Any]
    calls: Sequence[Given]


def small_config(model: HubModel, examples: Sequence[Given] = ()) -> SmallConfig:
    """Find the small configuration: the smallest that can be constructed and accepts a batch.

    Args:
        model: the model.
        examples: example calls that it must accept; by default they are drawn.

    Raises:
        UsageError: no size accepts these, or inputs drawn from its configuration; gives the model's error.
    """
    fields = dict(_fields(model.config, ()))
    why: UsageError | None = None
    shared = {path: rounds_needed(model, path) for path, value in fields.items() if is_number_of_layers(path, value)}
    for settings in _candidates(fields, shared):
        try:
            config = _of_size(model, settings)
            calls = _taken(model, config, examples) if examples else example_calls(model, config)
        except UsageError as error:
            why = why or error  # the smallest one's: the largest may only be too large to try
            continue
        return SmallConfig(config, {".".join(path): value for path, value in settings.items()}, calls)
    assert why is not None
    raise why


def _of_size(model: HubModel, settings: Mapping[Path, Any]) -> Any:
    """Return the model's configuration with some settings.

    Raises:
        UsageError: its class refuses the combination; gives its error.
    """
    try:
        return _resized(model.config, settings)
    except Exception as error:  # the original's code reports what does not fit
        said = ", ".join(f"{'.'.join(path)} = {value!r}" for path, value in settings.items())
        raise UsageError(f"{type(model.config).__name__} does not take {said}: {reason(error)}") from error


def _resized(config: Any, settings: Mapping[Path, Any]) -> Any:
    """Return a configuration with settings of its own and of the nested ones."""
    made = with_fields(config, {path[0]: value for path, value in settings.items() if len(path) == 1})
    for head in dict.fromkeys(path[0] for path in settings if len(path) > 1):
        inner = {path[1:]: value for path, value in settings.items() if path[0] == head and len(path) > 1}
        setattr(made, head, _resized(getattr(config, head), inner))
    return made


def _taken(model: HubModel, config: Any, examples: Sequence[Given]) -> Sequence[Given]:
    """Return the user's calls, if the model accepts them all."""
    for args, kwargs in examples:
        if why := refused(model, config, args, kwargs):
            raise UsageError(f"{model.name} does not take the inputs that it is given: {why}")
    return examples


def _fields(config: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield every field of a configuration and of the nested ones."""
    from transformers import PretrainedConfig

    aliases = set(getattr(config, "attribute_map", {}))
    for name, value in sorted(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            yield from _fields(value, (*path, name))
        elif name not in aliases:
            yield (*path, name), value


def _candidates(fields: Mapping[Path, Any], shared: Mapping[Path, int]) -> Iterator[dict[Path, Any]]:
    """Yield settings that may fit, the smallest first; the model's own sizes last.

    If layers are chosen by their number, a narrow model may need as many as the original.
    """
    fewer = fewer_layers(fields, shared)
    narrow = [scaled | _head_widths(fields, scaled) for scaled in _narrow(fields)]
    narrow = [one for one in narrow if _shows_its_numbers(one)] or narrow
    for settings in [fewer | one for one in narrow] + narrow[:DEEP_TRIES]:
        yield {path: value for path, value in settings.items() if value != fields[path]}
    yield fewer
    yield {}


def _narrow(fields: Mapping[Path, Any]) -> Iterator[dict[Path, Any]]:
    """Yield widths and heads, the smallest first; an inner width is divided by its own divisors."""
    widths, heads = _matching(fields, WIDTHS), _matching(fields, HEADS)
    outer = {path: value for path, value in widths.items() if not INNER.fullmatch(path[-1])} or widths
    hidden = min((min(numbers(value)) for path, value in widths.items() if _is_hidden(path[-1])), default=0)
    for by in divisors(outer, lambda by: hidden // by >= NARROWEST and _are_wide(outer, by)):
        scaled = {path: divided(value, by) for path, value in outer.items()}
        inner = {path: divided_at_most(value, by, NARROW) for path, value in widths.items() if path not in outer}
        for some in _fewer_heads(heads):
            yield _apart({path: {**scaled, **inner}[path] for path in widths}) | some


def _fewer_heads(heads: Mapping[Path, Any]) -> Iterator[dict[Path, Any]]:
    """Yield numbers of heads, the fewest first; fewer key heads than query heads stay fewer, and divide them."""
    before: dict[Path, Any] | None = None
    for most in range(max((one for value in heads.values() for one in numbers(value)), default=1), 0, -1):
        found = {path: divided_at_most(value, most, FEWEST_HEADS) for path, value in heads.items()}
        if found != before and all(_are_grouped(heads, found, path) for path in heads):
            yield found
        before = found


def _are_grouped(heads: Mapping[Path, Any], found: Mapping[Path, Any], path: Path) -> bool:
    """Whether a field's heads keep their relation to the others of its configuration: equal, or groups."""
    kept = [
        other
        for other in heads
        if other[:-1] == path[:-1] and all(isinstance(heads[one], int) for one in (path, other))
    ]
    return all(
        found[path] > found[other] and found[path] % found[other] == 0
        for other in kept
        if heads[path] > heads[other] and heads[path] % heads[other] == 0
    ) and all(found[path] == found[other] for other in kept if heads[path] == heads[other])


def _shows_its_numbers(settings: Mapping[Path, Any]) -> bool:
    """Whether numbers computed from a hidden width, or from a head's, can be traced to it.

    A model scales by square roots of its widths. That of 16 is 4, or 0.25, which may have come from anywhere. A head
    of width 2 has one frequency, which is 1 whatever the base.
    """
    hidden = {path: numbers(value) for path, value in settings.items() if _is_hidden(path[-1])}
    heads = [
        settings.get((*path[:-1], "head_dim"), settings[path] // settings[*path[:-1], name])
        for path in hidden
        if isinstance(settings[path], int)
        for name in NUMBERS_OF_HEADS
        if isinstance(settings.get((*path[:-1], name)), int)
    ]
    return min(heads, default=NARROW) >= NARROW and not any(map(is_square, [*chain(*hidden.values()), *heads]))


def _apart(widths: dict[Path, Any]) -> dict[Path, Any]:
    """Return the widths, with inner ones different from the model's: a square matrix hides a transpose."""
    wider = {}
    for path, value in widths.items():
        hidden = [widths[(*path[:-1], name)] for name in ("hidden_size", "d_model") if (*path[:-1], name) in widths]
        if INNER.fullmatch(path[-1]) and value in hidden:
            wider[path] = value + value // 2
    return widths | wider


def _are_wide(widths: Mapping[Path, Any], by: int) -> bool:
    """Whether every divided width is as large as a proof needs."""
    return all(one // by >= min(one, NARROW) for value in widths.values() for one in numbers(value))


def _head_widths(fields: Mapping[Path, Any], scaled: Mapping[Path, Any]) -> dict[Path, int]:
    """Return the widths of heads, if the configuration has them beside its own width."""
    found = {}
    for path, value in _matching(fields, HEAD_WIDTHS).items():
        if not isinstance(value, int):
            continue
        name = next((p for p in scaled if p[:-1] == path[:-1] and p[-1] in ("hidden_size", "d_model")), None)
        heads = next((p for p in scaled if p[:-1] == path[:-1] and p[-1] in ("num_attention_heads", "num_heads")), None)
        is_a_share = name is not None and heads is not None and fields[name] == value * fields[heads]
        if is_a_share and name is not None and heads is not None:
            found[path] = scaled[name] // scaled[heads]
        else:
            found[path] = HEAD_WIDTH if value % HEAD_WIDTH == 0 else value
    for path in [path for path in _matching(fields, ROTATED) if isinstance(fields[path], int)]:
        before, after = (_head_width(one, path[:-1]) for one in (fields, {**fields, **scaled, **found}))
        if before and after:
            found[path] = max(min(NARROW, after), fields[path] * after // before // 2 * 2)
    for path in [path for path in fields if path[-1] == "qk_head_dim"]:
        parts = [found.get((*path[:-1], f"qk_{kind}_head_dim"), 0) for kind in ("rope", "nope")]
        if all(parts):
            found[path] = sum(parts)
    return found


def _head_width(fields: Mapping[Path, Any], owner: Path) -> int:
    """Return a head's width, from its own field or from the hidden width; 0 if neither is known."""
    if isinstance(said := fields.get((*owner, "head_dim")), int):
        return said
    hidden = [fields[*owner, name] for name in HIDDEN if isinstance(fields.get((*owner, name)), int)]
    heads = [fields[*owner, name] for name in NUMBERS_OF_HEADS if isinstance(fields.get((*owner, name)), int)]
    return int(hidden[0] // heads[0]) if hidden and heads else 0


def _matching(fields: Mapping[Path, Any], pattern: re.Pattern[str]) -> dict[Path, Any]:
    return {path: value for path, value in fields.items() if pattern.fullmatch(path[-1]) and numbers(value)}


def _is_hidden(name: str) -> bool:
    return name in HIDDEN
