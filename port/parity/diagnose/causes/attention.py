"""Attention with another mask or scale, hand-written or torch's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from port.parity.diagnose.causes.operation import (
    Arguments,
    Explanation,
    TorchOperation,
    Way,
    do,
    having,
    instead,
    of_input,
)
from port.parity.diagnose.causes.parametrized import is_of_a_weight

_BLOCKED = -1e4
"""Additive masks hold values below this for blocked pairs."""
_FINITE = -1e30
_ROWS = "; a fully blocked row attends to all positions equally"
_SHIFTED = "Flax's causal mask blocks the position itself too"
_AHEAD = "Flax's causal mask lets each position see the next one"
_NEGATED = "Flax's mask means the opposite of torch's"
_MISSING = "Flax does not apply the mask"
_CAUSAL_MISSING = "Flax does not apply the causal mask"
_CAUSAL = "Flax applies a causal mask, torch none"
_SCALE_MISSING = "Flax does not scale the logits, torch divides them by √d"
_SCALE_TWICE = "Flax scales the logits by 1/√d twice"
_AS_NUMBERS = "Flax adds the boolean mask to the logits, where it is 1 and 0"
_AS_NUMBERS_REVERSED = f"{_AS_NUMBERS}, with the opposite meaning"
_ZERO = "Flax sets blocked logits to 0, which does not block them"
_TURNED = "Flax masks along the other of the last two axes: queries instead of keys"
_SUBTRACTED = "Flax subtracts the mask that torch adds"
_REMEDY_NUMBERS = "Mask by jnp.where(mask, logits, -jnp.inf), or pass mask= to nnx.dot_product_attention."
_REMEDY_AXIS = "Let the mask's axis be the keys': mask[:, None, None, :] for logits (N, H, L, S)."
_REMEDY_SIGN = "Add it: the mask is negative where something is blocked."
_REMEDY_MASK = "Pass torch's mask to Flax's attention; nnx.make_causal_mask makes a causal one."
_REMEDY_SCALE = "Divide by √d once: jax.nn.dot_product_attention and nnx.dot_product_attention divide internally."


def functional_mask(operation: TorchOperation) -> Iterator[Way]:
    """scaled_dot_product_attention with the mask negated, left out, or added."""
    if operation.name != "scaled_dot_product_attention":
        return
    mask, causal = operation.arguments.get("attn_mask"), bool(operation.arguments.get("is_causal"))
    if mask is not None:
        is_causal = _is_causal(mask)
        kind, why = ("causal-mask-missing", _CAUSAL_MISSING) if is_causal else ("mask-missing", _MISSING)
        yield Way(kind, why, having(attn_mask=None), _REMEDY_MASK)
        if mask.dtype == torch.bool:
            yield Way("mask-reversed", _NEGATED, having(attn_mask=~mask))
            added = _added(~mask, operation.arguments["query"].dtype)
            yield Way("mask-reversed", _NEGATED + _ROWS, having(attn_mask=added))
            for numbers, why in ((mask, _AS_NUMBERS), (~mask, _AS_NUMBERS_REVERSED)):
                run = having(attn_mask=numbers.to(operation.arguments["query"].dtype))
                yield Way("mask-added-as-numbers", why, run, _REMEDY_NUMBERS)
        else:
            yield Way("mask-sign", _SUBTRACTED, having(attn_mask=-mask), _REMEDY_SIGN)
    elif causal:
        yield Way("causal-mask-missing", _CAUSAL_MISSING, having(is_causal=False), _REMEDY_MASK)
        yield Way("mask-reversed", _NEGATED, _with_mask(_blocking_the_past))
        yield Way("causal-mask-shifted", _SHIFTED, _with_mask(_strictly_before), _REMEDY_MASK)
        yield Way("causal-mask-shifted", _AHEAD, _with_mask(_one_ahead), _REMEDY_MASK)
        yield Way("mask-reversed", _NEGATED + _ROWS, _with_mask(_blocking_the_past, finite=True))
    else:
        yield Way("causal-mask-added", _CAUSAL, having(is_causal=True), "Drop the mask.")


def _with_mask(make: Any, *, finite: bool = False) -> Any:
    def run(function: Any, arguments: Arguments) -> Any:
        rows, columns = arguments["query"].shape[-2], arguments["key"].shape[-2]
        mask = make(torch.ones(rows, columns, dtype=torch.bool))
        mask = _added(mask, arguments["query"].dtype) if finite else mask
        return do(function, {**arguments, "is_causal": False, "attn_mask": mask})

    return run


def _added(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert a mask of attended positions to an additive mask; fully blocked rows attend to all positions equally."""
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, _FINITE)


def _blocking_the_past(ones: torch.Tensor) -> torch.Tensor:
    return ~ones.tril()


def _strictly_before(ones: torch.Tensor) -> torch.Tensor:
    return ones.tril(-1)


def _one_ahead(ones: torch.Tensor) -> torch.Tensor:
    return ones.tril(1)


def functional_scale(operation: TorchOperation) -> Iterator[Way]:
    """scaled_dot_product_attention with the scale applied twice, or not at all."""
    if operation.name == "scaled_dot_product_attention" and torch.is_tensor(operation.arguments.get("query")):
        own = operation.arguments.get("scale")
        own = operation.arguments["query"].shape[-1] ** -0.5 if own is None else own
        yield Way("scale-missing", _SCALE_MISSING, having(scale=1.0), remedy=_REMEDY_SCALE)
        yield Way("scale-twice", _SCALE_TWICE, having(scale=own * own), remedy=_REMEDY_SCALE)


def module_mask(operation: TorchOperation) -> Iterator[Way]:
    """nn.MultiheadAttention with negated or missing masks, or another number of heads."""
    if operation.name != "multi_head_attention_forward":
        return
    for name in ("attn_mask", "key_padding_mask"):
        mask = operation.arguments.get(name)
        if mask is None:
            continue
        why = f"Flax's attention has no {name}"
        causal = "causal-mask-missing" if name == "attn_mask" and _is_causal(mask) else "mask-missing"
        yield Way(causal, why, having(**{name: None, "is_causal": False}), _REMEDY_MASK)
        if mask.dtype == torch.bool:
            why = f"{name} means the opposite in Flax: torch's True blocks, Flax's True attends"
            yield Way("mask-reversed", why, having(**{name: ~mask, "is_causal": False}))
            for numbers, why in ((mask, _AS_NUMBERS), (~mask, _AS_NUMBERS_REVERSED)):
                run = having(**{name: numbers.to(operation.arguments["query"].dtype), "is_causal": False})
                yield Way("mask-added-as-numbers", why, run, _REMEDY_NUMBERS)
        elif _is_additive(mask):
            why = f"{name} means the opposite in Flax"
            negated = torch.zeros_like(mask).masked_fill(mask > _BLOCKED, -torch.inf)
            yield Way("mask-reversed", why, having(**{name: negated, "is_causal": False}))
    own, width = operation.arguments.get("num_heads"), operation.arguments.get("embed_dim_to_check")
    if isinstance(own, int) and isinstance(width, int):
        for heads in range(1, width + 1):
            if width % heads == 0 and heads != own:
                why = f"num_heads is {own} in torch and {heads} in Flax"
                yield Way("number-of-heads", why, having(num_heads=heads), f"Give it num_heads={own}.")


def masked_logits(operation: TorchOperation) -> Iterator[Way]:
    """masked_fill and where with a negated or missing mask."""
    if operation.name == "masked_fill":
        mask = operation.arguments.get("mask")
        if torch.is_tensor(mask):
            kind, why = ("causal-mask-missing", _CAUSAL_MISSING) if _is_causal(mask) else ("mask-missing", _MISSING)
            yield Way(kind, why, instead(lambda x: x), _REMEDY_MASK)
            for numbers, why in ((mask, _AS_NUMBERS), (~mask, _AS_NUMBERS_REVERSED)):
                run = instead(partial(torch.add, other=numbers.to(operation.input.dtype)))
                yield Way("mask-added-as-numbers", why, run, _REMEDY_NUMBERS)
            # An additive mask filled with 0 masks nothing; that is reported as a missing mask.
            if float(operation.arguments.get("value", 0.0)) <= _BLOCKED and not _is_additive(operation.result):
                yield Way("mask-value", _ZERO, having(value=0.0), _REMEDY_NUMBERS)
            if mask.ndim >= 2:
                yield Way("mask-axis", _TURNED, having(mask=mask.transpose(-1, -2)), _REMEDY_AXIS)
            for fill, said in ((operation.arguments.get("value"), ""), (_FINITE, _ROWS)):
                yield Way("mask-reversed", _NEGATED + said, having(mask=~mask, value=fill))
                for shift, why in ((-1, _SHIFTED), (1, _AHEAD)) if kind == "causal-mask-missing" else ():
                    moved = _causal_like(mask, shift)
                    yield Way("causal-mask-shifted", why + said, having(mask=moved, value=fill), _REMEDY_MASK)
    elif operation.name == "where" and _is_boolean(operation.input) and len(operation.arguments) == 3:
        yield Way("mask-reversed", _NEGATED, of_input(lambda mask: ~mask))
        kind, why = "mask-missing", _MISSING
        yield Way(kind, why, of_input(torch.ones_like), _REMEDY_MASK)
        yield Way(kind, why, of_input(torch.zeros_like), _REMEDY_MASK)


def added_mask(operation: TorchOperation) -> Iterator[Way]:
    """An additive mask of −∞, left out or negated."""
    if operation.name not in ("add", "__add__", "__radd__", "sub"):
        return
    tensors = [value for value in operation.arguments.values() if torch.is_tensor(value)]
    if len(tensors) == 2 and _is_additive(tensors[1]) and not _is_additive(tensors[0]):
        mask = tensors[1]
        kind, why = ("causal-mask-missing", _CAUSAL_MISSING) if _is_causal(mask) else ("mask-missing", _MISSING)
        yield Way(kind, why, instead(lambda x: x), _REMEDY_MASK)
        negated = torch.zeros_like(mask).masked_fill(mask > _BLOCKED, float(mask.min()))
        yield Way("mask-reversed", _NEGATED, instead(lambda x: x + negated))
        yield Way("mask-sign", _SUBTRACTED, instead(lambda x: x - mask), _REMEDY_SIGN)
        for numbers, why in ((mask < 0, _AS_NUMBERS), (mask == 0, _AS_NUMBERS_REVERSED)):
            run = instead(partial(torch.add, other=numbers.to(mask.dtype)))
            yield Way("mask-added-as-numbers", why, run, _REMEDY_NUMBERS)


def causal_logits(operation: TorchOperation) -> Iterator[Way]:
    """A causal mask before a softmax that has none in torch."""
    x = operation.input
    if operation.name == "softmax" and torch.is_tensor(x) and x.ndim >= 3 and x.shape[-1] == x.shape[-2]:
        blocked = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
        run = of_input(lambda logits: logits.masked_fill(blocked, -torch.inf))
        yield Way("causal-mask-added", _CAUSAL, run, "Drop the mask.", rank=1)


def scale(operation: TorchOperation) -> Iterator[Way]:
    """A multiplication or division by a constant, left out or applied twice."""
    if operation.name not in ("mul", "div", "__mul__", "__truediv__", "__rmul__") or is_of_a_weight(operation):
        return
    _, *others = operation.arguments.values()
    number = others[0] if others else None
    number = number.item() if torch.is_tensor(number) and number.ndim == 0 else number
    if not isinstance(number, int | float) or isinstance(number, bool) or number in (0, 1):
        return
    said = f"{'divides by' if 'div' in operation.name else 'multiplies by'} {number:.4g}"
    remedy = "Scale once, as torch does."
    yield Way("scale-missing", f"torch {said}, Flax does not", instead(lambda x: x * 1), remedy=remedy)

    def twice(function: Any, arguments: Arguments) -> Any:
        first, *rest = arguments.items()
        return do(function, {first[0]: do(function, arguments), **dict(rest)})

    yield Way("scale-twice", f"torch {said} once, Flax twice", twice, remedy=remedy)


def _is_boolean(value: Any) -> bool:
    return torch.is_tensor(value) and value.dtype == torch.bool


def _is_additive(value: Any) -> bool:
    """Whether a tensor is an additive mask: zero, or very negative where something is blocked."""
    if not torch.is_tensor(value) or not value.is_floating_point() or not value.numel():
        return False
    blocked = value <= _BLOCKED
    return bool(blocked.any()) and bool((value[~blocked] == 0).all())


def _causal_like(mask: torch.Tensor, shift: int) -> torch.Tensor:
    """Return a causal mask with the same meaning whose triangle begins one place earlier (−1) or later."""
    ones = torch.ones(mask.shape[-2:], dtype=torch.bool)
    blocked = ones.triu(1 + shift)
    blocks = bool(mask[..., 0, -1].all())  # the first position must not see the last
    return (blocked if blocks else ~blocked).expand(mask.shape)


def _is_causal(mask: torch.Tensor) -> bool:
    """Whether a mask is a triangle, with either meaning."""
    blocked = mask if mask.dtype == torch.bool else mask <= _BLOCKED
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 2:
        return False
    ones = torch.ones(mask.shape[-2:], dtype=torch.bool)
    return any(bool((blocked == triangle).all()) for triangle in (ones.triu(1), ~ones.triu(1)))


EXPLANATIONS: tuple[Explanation, ...] = (
    functional_mask,
    functional_scale,
    module_mask,
    masked_logits,
    added_mask,
    causal_logits,
    scale,
)
