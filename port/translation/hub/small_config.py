"""The smallest configuration of a model of ``transformers`` that its own divisibility allows: it is proved there.

Layers become two, or as many as show every kind of them or that they are a loop through the same ones; widths, heads
and experts are divided by what divides them all. Sizes of inputs and vocabularies stay: the same example inputs go into
both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import gcd, isqrt
from typing import Any

from port.errors import UsageError
from port.translation.frontend.example_inputs import Given
from port.translation.hub.derived_fields import with_fields
from port.translation.hub.example_calls import example_calls, refused
from port.translation.hub.hub_model import LAYERS, HubModel
from port.translation.hub.shared_layers import rounds_needed

WIDTHS = re.compile(
    r"hidden_sizes?|d_model|n_embd|dim|embed_dim|embedding_size|(.*_)?intermediate_size|d_ff|n_inner|hidden_dim"
    r"|(.*_)?ffn_dim|ffn_hidden_size|projection_(dim|size)|word_embed_proj_dim|q_lora_rank|kv_lora_rank|output_hidden_size"
    r"|conv_dim|neck_hidden_sizes|pooler_output_size|decoder_hidden_size"
)
INNER = re.compile(r"(.*_)?intermediate_size|d_ff|(.*_)?ffn_dim|ffn_hidden_size")
HEADS = re.compile(r"(num_|n_|(en|de)coder_)?(attention_|key_value_|kv_)?heads?|num_key_value_heads")
HEAD_WIDTHS = re.compile(r"head_dim|d_kv|qk_(rope|nope)_head_dim|v_head_dim|query_pre_attn_scalar")
EXPERTS = re.compile(r"num_(local_)?experts|n_routed_experts")
CHOSEN = re.compile(r"num_experts_per_tok|moe_topk|top_k_experts")
OF_LAYERS = re.compile(r"layer_types|mlp_layer_types|attention_types|layers_block_type")
OF_DEPTH = re.compile(r"drop_path_rate|stochastic_depth_rate")
"""The last of rates that grow from layer to layer, so that each layer has one of its own."""
NARROWEST = 16
"""The least width of a model's hidden states."""
NARROW = 4
"""The least of any other width, if it is not less itself: what is 1 wide is broadcast, which no other width is."""
FEWEST_HEADS = 2
HEAD_WIDTH = 8
Path = tuple[str, ...]


@dataclass(frozen=True)
class SmallConfig:
    """A configuration that fits.

    Attributes:
        config: itself.
        settings: the fields that are others than the model's, with their values, as ``text_config.hidden_size``.
        calls: example calls that both take.
    """

    config: Any
    settings: Mapping[str, Any]
    calls: Sequence[Given]


def small_config(model: HubModel, examples: Sequence[Given] = ()) -> SmallConfig:
    """Find it, by trying what is constructed and takes a batch, the smallest first.

    Args:
        model: of ``transformers``.
        examples: example calls that it has to take; without any they are drawn.

    Raises:
        UsageError: no size takes them, or inputs that its configuration says; gives the model's own words.
    """
    fields = dict(_fields(model.config, ()))
    why: UsageError | None = None
    shared = {path: rounds_needed(model, path) for path, value in fields.items() if _is_number_of_layers(path, value)}
    for settings in _candidates(fields, shared):
        config = _resized(model.config, settings)
        try:
            calls = _taken(model, config, examples) if examples else example_calls(model, config)
        except UsageError as error:
            why = why or error  # of the smallest: the largest may only be too large to try
            continue
        return SmallConfig(config, {".".join(path): value for path, value in settings.items()}, calls)
    assert why is not None
    raise why


def _resized(config: Any, settings: Mapping[Path, Any]) -> Any:
    """A configuration with settings of its own and of those within it."""
    made = with_fields(config, {path[0]: value for path, value in settings.items() if len(path) == 1})
    for head in dict.fromkeys(path[0] for path in settings if len(path) > 1):
        inner = {path[1:]: value for path, value in settings.items() if path[0] == head and len(path) > 1}
        setattr(made, head, _resized(getattr(config, head), inner))
    return made


def _taken(model: HubModel, config: Any, examples: Sequence[Given]) -> Sequence[Given]:
    """The user's calls, if a model takes them all."""
    for args, kwargs in examples:
        if why := refused(model, config, args, kwargs):
            raise UsageError(f"{model.name} does not take the inputs that it is given: {why}")
    return examples


def _fields(config: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every field of a configuration and of those within it."""
    from transformers import PretrainedConfig

    aliases = set(getattr(config, "attribute_map", {}))
    for name, value in sorted(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            yield from _fields(value, (*path, name))
        elif name not in aliases:
            yield (*path, name), value


def _candidates(fields: Mapping[Path, Any], shared: Mapping[Path, int]) -> Iterator[dict[Path, Any]]:
    """Settings that may fit, the smallest first; the model's own sizes at last."""
    fewer = _fewer(fields, shared)
    widths, heads = _matching(fields, WIDTHS), _matching(fields, HEADS)
    hidden = min((min(_numbers(value)) for path, value in widths.items() if _is_hidden(path[-1])), default=0)
    sizes = [
        (by_width, by_heads)
        for by_width in _divisors(widths, lambda by: hidden // by >= NARROWEST and _are_wide(widths, by))
        for by_heads in _divisors(heads, lambda by: all(_are_enough(value, by) for value in heads.values()))
    ]
    found = []
    for by_width, by_heads in sizes:
        scaled = _apart({path: _divided(value, by_width) for path, value in widths.items()})
        scaled |= {path: _divided(value, by_heads) for path, value in heads.items()}
        found.append({**fewer, **scaled, **_head_widths(fields, scaled)})
    for settings in [one for one in found if _shows_its_numbers(one)] or found:
        yield {path: value for path, value in settings.items() if value != fields[path]}
    yield fewer
    yield {}


def _shows_its_numbers(settings: Mapping[Path, Any]) -> bool:
    """Whether what is computed with a hidden width, or with a head's, shows where it comes from.

    A model scales by roots of its widths. That of 16 is 4, or 0.25: a number that may have come from anywhere. A head
    that is 2 wide has one frequency, which is 1 whatever the base.
    """
    hidden = {path: _numbers(value) for path, value in settings.items() if _is_hidden(path[-1])}
    heads = [
        settings.get((*path[:-1], "head_dim"), settings[path] // settings[*path[:-1], name])
        for path in hidden
        if isinstance(settings[path], int)
        for name in ("num_attention_heads", "num_heads", "n_head", "encoder_attention_heads")
        if isinstance(settings.get((*path[:-1], name)), int)
    ]
    return min(heads, default=NARROW) >= NARROW and not any(map(_is_square, [*chain(*hidden.values()), *heads]))


def _is_square(number: int) -> bool:
    return isqrt(number) ** 2 == number


def _apart(widths: dict[Path, Any]) -> dict[Path, Any]:
    """Widths of which an inner one is not as wide as its model: a square hides what is transposed."""
    wider = {}
    for path, value in widths.items():
        hidden = [widths[(*path[:-1], name)] for name in ("hidden_size", "d_model") if (*path[:-1], name) in widths]
        if INNER.fullmatch(path[-1]) and value in hidden:
            wider[path] = value + value // 2
    return widths | wider


def _are_wide(widths: Mapping[Path, Any], by: int) -> bool:
    """Whether no width that is divided is less than a proof needs."""
    return all(one // by >= min(one, NARROW) for value in widths.values() for one in _numbers(value))


def _are_enough(heads: Any, by: int) -> bool:
    """Whether heads that are divided are not fewer than a proof needs."""
    fewest = min(_numbers(heads))
    return fewest // by >= min(fewest, FEWEST_HEADS)


def _fewer(fields: Mapping[Path, Any], shared: Mapping[Path, int]) -> dict[Path, Any]:
    """Fewer layers and experts; of layers that share their weights as many rounds as are needed.

    As many layers as the model's where each has a number of its own, that follows from how many there are.
    """
    found: dict[Path, Any] = {}
    for path, value in fields.items():
        name, owner = path[-1], path[:-1]
        is_own = any(OF_DEPTH.fullmatch(one[-1]) and one[:-1] == owner and rate for one, rate in fields.items())
        if is_own and (name == "depths" or OF_LAYERS.fullmatch(name) or _is_number_of_layers(path, value)):
            continue
        if name == "depths" and isinstance(value, list | tuple):
            found[path] = type(value)(min(one, 2) for one in value)
        elif _is_number_of_layers(path, value) and (*owner, "depths") not in fields:
            found[path] = min(value, max(shared.get(path, 0), _layers_needed(fields, owner)))
        elif OF_LAYERS.fullmatch(name) and isinstance(value, list):
            found[path] = value[: _layers_needed(fields, owner)]
        elif name == "first_k_dense_replace" and isinstance(value, int):
            found[path] = min(value, 1)
        elif CHOSEN.fullmatch(name) and isinstance(value, int):
            found[path] = min(value, 2)
        elif EXPERTS.fullmatch(name) and isinstance(value, int):
            found[path] = min(value, 8)
        elif name == "n_group" and isinstance(value, int):
            found[path] = min(value, 2)
        elif name == "topk_group" and isinstance(value, int):
            found[path] = min(value, 1)
    return found


def _is_number_of_layers(path: Path, value: Any) -> bool:
    return bool(LAYERS.fullmatch(path[-1])) and isinstance(value, int)


def _layers_needed(fields: Mapping[Path, Any], owner: Path) -> int:
    """How many layers show every kind of them; two at least."""
    lists = [v for path, v in fields.items() if path[:-1] == owner and OF_LAYERS.fullmatch(path[-1]) and v]
    return max([2, *(max(value.index(kind) for kind in set(value)) + 1 for value in lists)])


def _head_widths(fields: Mapping[Path, Any], scaled: Mapping[Path, Any]) -> dict[Path, int]:
    """The widths of heads, where a configuration says them beside its own width."""
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
    for path in [path for path in fields if path[-1] == "qk_head_dim"]:
        parts = [found.get((*path[:-1], f"qk_{kind}_head_dim"), 0) for kind in ("rope", "nope")]
        if all(parts):
            found[path] = sum(parts)
    return found


def _matching(fields: Mapping[Path, Any], pattern: re.Pattern[str]) -> dict[Path, Any]:
    return {path: value for path, value in fields.items() if pattern.fullmatch(path[-1]) and _numbers(value)}


def _numbers(value: Any) -> list[int]:
    """The whole numbers of a field; none where it is something else."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    return parts if parts and all(isinstance(one, int) and not isinstance(one, bool) for one in parts) else []


def _divided(value: Any, by: int) -> Any:
    return type(value)(one // by for one in value) if isinstance(value, list | tuple) else value // by


def _divisors(fields: Mapping[Path, Any], fits: Any) -> list[int]:
    """What divides all numbers of some fields, the largest first."""
    whole = gcd(*(one for value in fields.values() for one in _numbers(value)))
    return [by for by in range(whole, 0, -1) if whole % by == 0 and fits(by)] or [1]


def _is_hidden(name: str) -> bool:
    return name in ("hidden_size", "hidden_sizes", "d_model", "n_embd", "dim", "embed_dim", "conv_dim")
