"""Convolutions, pools, resizing and what is done to images between them, with another padding, size or order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import torch
from torch.nn import functional as F

from port.parity.causes.cause import LAYER
from port.parity.causes.operation import Arguments, Explanation, Operation, Way, do, having, then


def _each(value: Any, count: int) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return values * count if len(values) == 1 else values


def padding(operation: Operation) -> Iterator[Way]:
    """A convolution padded as "SAME" pads, which at a stride is not the same on both ends; or not at all."""
    if operation.name not in ("conv1d", "conv2d", "conv3d"):
        return
    told, rank = operation.arguments.get("padding", 0), int(operation.name[4])
    why = f"Flax pads by 'SAME', torch by {told}: at a stride they are not the same"
    yield Way("padding-at-a-stride", why, _padded_same, "W3")
    if told not in ("valid", 0, (0,) * rank):
        remedy = f"Give Flax's layer padding={told!r}."
        yield Way("padding-missing", f"Flax does not pad, torch pads by {told}", having(padding=0), "W3", remedy)
    strides = _each(operation.arguments.get("stride", 1), rank)
    dilations = _each(operation.arguments.get("dilation", 1), rank)
    if any(step != 1 for step in dilations):
        why, remedy = f"Flax's kernel is not dilated, torch's by {dilations}", f"Give it kernel_dilation={dilations}."
        same = having(dilation=1, padding=tuple(p // d for p, d in zip(_each(told, rank), dilations, strict=True)))
        yield Way("dilation-missing", why, same, remedy=remedy)
        yield Way("dilation-missing", f"{why}, with torch's padding", having(dilation=1), remedy=remedy)
    if any(step != 1 for step in strides):
        why = f"Flax takes its strides' last places, torch their first, of {strides}"
        yield Way("stride-offset", why, _from_the_end, "W3", "Pad in numbers, as torch does.", rank=2)


def _padded_same(function: Any, arguments: Arguments) -> Any:
    x, weight = arguments["input"], arguments["weight"]
    rank = weight.ndim - 2
    strides, dilations = _each(arguments.get("stride", 1), rank), _each(arguments.get("dilation", 1), rank)
    pads: list[int] = []
    for axis in range(rank):
        length, reach = x.shape[2 + axis], dilations[axis] * (weight.shape[2 + axis] - 1) + 1
        total = max((-(-length // strides[axis]) - 1) * strides[axis] + reach - length, 0)
        pads = [total // 2, total - total // 2, *pads]
    return do(function, {**arguments, "input": F.pad(x, pads), "padding": 0})


def _from_the_end(function: Any, arguments: Arguments) -> Any:
    axes = tuple(range(2, arguments["weight"].ndim))
    weight, x = arguments["weight"].flip(axes), arguments["input"].flip(axes)
    return do(function, {**arguments, "input": x, "weight": weight}).flip(axes)


def pad_mode(operation: Operation) -> Iterator[Way]:
    """Padding with other values."""
    if operation.name != "pad":
        return
    own = operation.arguments.get("mode", "constant")
    for other in ("constant", "reflect", "replicate", "circular"):
        if other != own:
            why = f"Flax pads with {'zeros' if other == 'constant' else other}, torch with {own}"
            yield Way("padding-mode", why, having(mode=other), "W4")


def pools(operation: Operation) -> Iterator[Way]:
    """A pool with its last window rounded the other way, another padding, or the other kind of pool."""
    if not operation.name.startswith(("max_pool", "avg_pool")):
        return
    arguments, is_max, rank = operation.arguments, operation.name.startswith("max"), int(operation.name[8])
    note, own = ("W20" if is_max else "W18"), bool(arguments.get("ceil_mode", False))
    why = f"torch rounds the pool's size {'up (ceil_mode)' if own else 'down'}, Flax {'down' if own else 'up'}"
    yield Way("ceil-mode", why, having(ceil_mode=not own), note)
    padded = any(_each(arguments.get("padding", 0), rank))
    if not is_max:
        counts = arguments.get("count_include_pad", True)
        if padded or own:
            why = f"torch's average {'counts' if counts else 'does not count'} its padding, Flax's the other way round"
            remedy = f"Call nnx.avg_pool with count_include_pad={counts}."
            yield Way("count-include-pad", why, having(count_include_pad=not counts), "W18", remedy)
    elif padded:
        yield Way("pool-padded-with-zeros", "Flax pads the max pool with zeros, torch with −∞", _zero_padded, "W20")
    other = getattr(F, ("avg" if is_max else "max") + operation.name[3:])

    def as_other(function: Any, given: Arguments) -> Any:
        names = ("input", "kernel_size", "stride", "padding", "ceil_mode")
        return other(*(given[name] for name in names if name in given))

    why = f"torch calls {operation.name}, Flax the {'average' if is_max else 'maximum'}"
    remedy = f"Call nnx.{operation.name[:8]}."
    yield Way("another-pooling", why, as_other, note, remedy, rank=1)


def _zero_padded(function: Any, arguments: Arguments) -> Any:
    rank = arguments["input"].ndim - 2
    pads = [pad for pad in reversed(_each(arguments.get("padding", 0), rank)) for _ in range(2)]
    return do(function, {**arguments, "input": F.pad(arguments["input"], pads), "padding": 0})


def resizing(operation: Operation) -> Iterator[Way]:
    """Interpolation between other source points."""
    if operation.name != "interpolate":
        return
    own, aligned = operation.arguments.get("mode", "nearest"), bool(operation.arguments.get("align_corners"))
    if own in ("linear", "bilinear", "bicubic", "trilinear"):
        why = f"align_corners is {aligned} in torch, and {not aligned} in Flax"
        yield Way("align-corners", why, having(align_corners=not aligned), "W21")
        if own in ("bilinear", "bicubic"):
            why = "Flax smooths when it shrinks (antialias), torch does not"
            run = having(antialias=not operation.arguments.get("antialias", False))
            yield Way("antialias", why, run, "W21")
    for other in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        if other != own:
            takes = {"align_corners": False} if other.startswith("bi") else {"align_corners": None}
            why = f"torch resizes by {own}, Flax by {other}"
            yield Way("interpolation-mode", why, having(mode=other, **takes), "W21")


def concatenation(operation: Operation) -> Iterator[Way]:
    """What is concatenated in another order."""
    tensors = operation.arguments.get("tensors")
    if operation.name != "cat" or not isinstance(tensors, tuple | list) or not 2 <= len(tensors) <= 4:
        return
    for order in permutations(range(len(tensors))):
        if order != tuple(range(len(tensors))):
            why = f"Flax concatenates in another order, torch's {order}"
            remedy = "Concatenate in torch's order."
            yield Way("concatenation-order", why, _reordered(order), remedy=remedy)


def _reordered(order: tuple[int, ...]) -> Any:
    def run(function: Any, arguments: Arguments) -> Any:
        return do(function, {**arguments, "tensors": [arguments["tensors"][place] for place in order]})

    return run


def flattening(operation: Operation) -> Iterator[Way]:
    """Images flattened with their channels last."""
    if operation.name not in ("flatten", "reshape", "view") or not torch.is_tensor(operation.input):
        return
    shape = tuple(operation.input.shape)

    def channels_last(function: Any, arguments: Arguments) -> Any:
        first, *others = arguments.items()
        # Whatever is flattened: a view of it would not be one in memory.
        given = first[1].movedim(1, -1).contiguous().reshape(shape)
        flat = do(function, {first[0]: given, **dict(others)})
        if flat.ndim != 2:
            raise ValueError("nothing is flattened for a linear layer")
        return flat

    if 3 <= len(shape) <= 5:
        why = "Flax flattens with the channels last, torch with the channels first"
        remedy = f'Give fold={{"{LAYER}": {shape[1:]}}}, which reorders the inputs of the linear layer behind it.'
        yield Way("flatten-order", why, channels_last, "W6", remedy)


def tokens(operation: Operation) -> Iterator[Way]:
    """Images flattened into tokens column by column."""
    if (
        operation.name in ("flatten", "reshape", "view")
        and torch.is_tensor(operation.input)
        and operation.input.ndim == 4
    ):
        shape = operation.input.shape

        def by_columns(function: Any, arguments: Arguments) -> Any:
            first, *others = arguments.items()
            return do(function, {first[0]: first[1].transpose(2, 3).reshape(shape), **dict(others)})

        why, remedy = "Flax flattens the image column by column, torch row by row", "Keep the rows outside."
        yield Way("token-order", why, by_columns, remedy=remedy)


def averaging(operation: Operation) -> Iterator[Way]:
    """A maximum for a mean over the image, and the other way round."""
    if operation.name in ("adaptive_avg_pool2d", "adaptive_avg_pool1d"):
        pool = F.adaptive_max_pool2d if operation.name.endswith("2d") else F.adaptive_max_pool1d

        def maximum(function: Any, arguments: Arguments) -> Any:
            given, own, *_ = arguments.values()
            return pool(given, own)

        why = "torch takes the mean over the image, Flax the maximum"
        yield Way("another-pooling", why, maximum, "W19", "Take the mean.", rank=1)
        summed = then(lambda result: result * _count(operation, result))
        yield Way("mean-or-sum", "torch takes the mean over the image, Flax the sum", summed, "W19", "Take the mean.")


def _count(operation: Operation, result: torch.Tensor) -> float:
    return operation.input.numel() / result.numel()


EXPLANATIONS: tuple[Explanation, ...] = (
    padding,
    pad_mode,
    pools,
    resizing,
    concatenation,
    flattening,
    tokens,
    averaging,
)
