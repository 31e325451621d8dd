"""Convolutions, pools, resizing and reshaping of images, with another padding, size or order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import torch
from torch.nn import functional as F

from port.parity.diagnose.causes.cause import LAYER
from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, do, having, instead, then


def _each(value: Any, count: int) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return values * count if len(values) == 1 else values


def padding(operation: TorchOperation) -> Iterator[Way]:
    """A convolution with "SAME" padding, which at a stride differs between the two ends; or without padding."""
    if operation.name not in ("conv1d", "conv2d", "conv3d"):
        return
    pads, rank = operation.arguments.get("padding", 0), int(operation.name[4])
    why = f"Flax pads by 'SAME', torch by {pads}: at a stride they are not the same"
    yield Way("padding-at-a-stride", why, _padded_same)
    if pads not in ("valid", 0, (0,) * rank):
        remedy = f"Give Flax's layer padding={pads!r}."
        yield Way("padding-missing", f"Flax does not pad, torch pads by {pads}", having(padding=0), remedy)
    strides = _each(operation.arguments.get("stride", 1), rank)
    dilations = _each(operation.arguments.get("dilation", 1), rank)
    if any(step != 1 for step in dilations):
        why, remedy = f"Flax's kernel is not dilated, torch's by {dilations}", f"Give it kernel_dilation={dilations}."
        same = having(dilation=1, padding=tuple(p // d for p, d in zip(_each(pads, rank), dilations, strict=True)))
        yield Way("dilation-missing", why, same, remedy=remedy)
        yield Way("dilation-missing", f"{why}, with torch's padding", having(dilation=1), remedy=remedy)
    for other in {(1,) * rank, (2,) * rank} - {strides}:
        why = f"torch's stride is {strides}, Flax's {other}"
        yield Way("stride", why, having(stride=other), f"Give Flax's layer strides={strides}.")
    if any(step != 1 for step in strides):
        why = f"Flax takes its strides' last places, torch their first, of {strides}"
        yield Way("stride-offset", why, _from_the_end, "Pad in numbers, as torch does.", rank=2)


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


def transposed_padding(operation: TorchOperation) -> Iterator[Way]:
    """A transposed convolution with "SAME" padding, which with output_padding is not torch's."""
    if operation.name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        pads, more = operation.arguments.get("padding", 0), operation.arguments.get("output_padding", 0)
        why = f"Flax pads by 'SAME', torch by {pads}, with output_padding={more}: not the same places are cropped"
        yield Way("padding-at-a-stride", why, _transposed_same)


def _transposed_same(function: Any, arguments: Arguments) -> Any:
    """Compute all places that the kernel reaches, then keep those that jax.lax.conv_transpose keeps."""
    weight = arguments["weight"]
    rank = weight.ndim - 2
    strides, dilations = (_each(arguments.get(name, 1), rank) for name in ("stride", "dilation"))
    whole = do(function, {**arguments, "padding": 0, "output_padding": 0})
    pads: list[int] = []
    for axis in range(rank):
        reach, stride = dilations[axis] * (weight.shape[2 + axis] - 1) + 1, strides[axis]
        total = reach + stride - 2
        first = reach - 1 if stride > reach - 1 else -(-total // 2)
        pads = [first - (reach - 1), total - first - (reach - 1), *pads]
    return F.pad(whole, pads)


def pad_mode(operation: TorchOperation) -> Iterator[Way]:
    """Padding with other values."""
    if operation.name != "pad":
        return
    own = operation.arguments.get("mode", "constant")
    for other in ("constant", "reflect", "replicate", "circular"):
        if other != own:
            why = f"Flax pads with {'zeros' if other == 'constant' else other}, torch with {own}"
            yield Way("padding-mode", why, having(mode=other))


def pools(operation: TorchOperation) -> Iterator[Way]:
    """A pool with its size rounded the other way, another padding, or of the other kind."""
    if not operation.name.startswith(("max_pool", "avg_pool")):
        return
    arguments, is_max, rank = operation.arguments, operation.name.startswith("max"), int(operation.name[8])
    own = bool(arguments.get("ceil_mode", False))
    why = f"torch rounds the pool's size {'up (ceil_mode)' if own else 'down'}, Flax {'down' if own else 'up'}"
    yield Way("ceil-mode", why, having(ceil_mode=not own))
    padded = any(_each(arguments.get("padding", 0), rank))
    if any(step != 1 for step in _each(arguments.get("dilation", 1), rank)):
        why = "torch's window is dilated, Flax's is not"
        yield Way("pool-dilation-missing", why, having(dilation=1))
    if arguments.get("divisor_override") is not None:
        why = f"torch divides each window's sum by {arguments['divisor_override']}, Flax by its size"
        yield Way("divisor-missing", why, having(divisor_override=None))
    if not is_max:
        counts = arguments.get("count_include_pad", True)
        if padded or own:
            why = f"torch's average {'counts' if counts else 'does not count'} its padding, Flax's the other way round"
            remedy = f"Call nnx.avg_pool with count_include_pad={counts}."
            yield Way("count-include-pad", why, having(count_include_pad=not counts), remedy)
    elif padded:
        yield Way("pool-padded-with-zeros", "Flax pads the max pool with zeros, torch with −∞", _zero_padded)
        why = f"Flax pads the pool by 'SAME', torch by {arguments['padding']}: at a stride they are not the same"
        yield Way("padding-at-a-stride", why, _pool_padded_same, "Pad in numbers, as torch does.")
    other = getattr(F, ("avg" if is_max else "max") + operation.name[3:])

    def as_other(function: Any, arguments: Arguments) -> Any:
        names = ("input", "kernel_size", "stride", "padding", "ceil_mode")
        return other(*(arguments[name] for name in names if name in arguments))

    why = f"torch calls {operation.name}, Flax the {'average' if is_max else 'maximum'}"
    remedy = f"Call nnx.{operation.name[:8]}."
    yield Way("another-pooling", why, as_other, remedy, rank=1)


def _zero_padded(function: Any, arguments: Arguments) -> Any:
    rank = arguments["input"].ndim - 2
    pads = [pad for pad in reversed(_each(arguments.get("padding", 0), rank)) for _ in range(2)]
    return do(function, {**arguments, "input": F.pad(arguments["input"], pads), "padding": 0})


def _pool_padded_same(function: Any, arguments: Arguments) -> Any:
    x, rank = arguments["input"], arguments["input"].ndim - 2
    sizes = _each(arguments["kernel_size"], rank)
    strides = _each(arguments.get("stride") or arguments["kernel_size"], rank)
    pads: list[int] = []
    for length, size, stride in zip(x.shape[2:], sizes, strides, strict=True):
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        pads = [total // 2, total - total // 2, *pads]
    return do(function, {**arguments, "input": F.pad(x, pads, value=-torch.inf), "padding": 0})


def resizing(operation: TorchOperation) -> Iterator[Way]:
    """Interpolation with other source points."""
    if operation.name != "interpolate":
        return
    own, aligned = operation.arguments.get("mode", "nearest"), bool(operation.arguments.get("align_corners"))
    if own in ("linear", "bilinear", "bicubic", "trilinear"):
        why = f"align_corners is {aligned} in torch, and {not aligned} in Flax"
        yield Way("align-corners", why, having(align_corners=not aligned))
        if own in ("bilinear", "bicubic"):
            smooths = bool(operation.arguments.get("antialias", False))
            why = f"{'torch' if smooths else 'Flax'} smooths when it shrinks (antialias), the other does not"
            kind = "antialias"
            if own == "bicubic" and not smooths and _grows(operation):
                kind, why = "cubic-coefficient", "Flax's cubic has a = −0.5, torch's −0.75"
            yield Way(kind, why, having(antialias=not smooths))
        if operation.arguments.get("scale_factor") is not None:
            why = "torch takes its source points by scale_factor directly, Flax by the ratio of both sizes"
            yield Way("scale-factor", why, having(recompute_scale_factor=True))
    for other in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        if other != own:
            takes = {"align_corners": False} if other.startswith("bi") else {"align_corners": None}
            why = f"torch resizes by {own}, Flax by {other}"
            yield Way("interpolation-mode", why, having(mode=other, **takes))


def _grows(operation: TorchOperation) -> bool:
    """Whether a resize shrinks no axis: torch's antialias then smooths nothing, and only sets the cubic's a to −0.5."""
    size, factor = operation.arguments.get("size"), operation.arguments.get("scale_factor")
    lengths = operation.input.shape[2:]
    if size is not None:
        return all(new >= old for new, old in zip(_each(size, len(lengths)), lengths, strict=True))
    return factor is not None and all(each >= 1 for each in _each(factor, len(lengths)))


def concatenation(operation: TorchOperation) -> Iterator[Way]:
    """Concatenation in another order."""
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


def flattening(operation: TorchOperation) -> Iterator[Way]:
    """Images flattened with their channels last."""
    if operation.name not in ("flatten", "reshape", "view") or not torch.is_tensor(operation.input):
        return
    shape = tuple(operation.input.shape)

    def channels_last(function: Any, arguments: Arguments) -> Any:
        first, *others = arguments.items()
        # The flattened array need not be contiguous.
        moved = first[1].movedim(1, -1).contiguous().reshape(shape)
        flat = do(function, {first[0]: moved, **dict(others)})
        if flat.ndim != 2:
            raise ValueError("nothing is flattened for a linear layer")
        return flat

    if 3 <= len(shape) <= 5:
        why = "Flax flattens with the channels last, torch with the channels first"
        remedy = f'Pass fold={{"{LAYER}": {shape[1:]}}}, which reorders the inputs of the linear layer after it.'
        yield Way("flatten-order", why, channels_last, remedy)


def tokens(operation: TorchOperation) -> Iterator[Way]:
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

        why, remedy = "Flax flattens the image column by column, torch row by row", "Keep the rows as the outer axis."
        yield Way("token-order", why, by_columns, remedy=remedy)


def averaging(operation: TorchOperation) -> Iterator[Way]:
    """A maximum instead of a mean over the image, or a sum."""
    if operation.name in ("adaptive_avg_pool2d", "adaptive_avg_pool1d"):
        pool = F.adaptive_max_pool2d if operation.name.endswith("2d") else F.adaptive_max_pool1d

        def maximum(function: Any, arguments: Arguments) -> Any:
            image, own, *_ = arguments.values()
            return pool(image, own)

        why = "torch takes the mean over the image, Flax the maximum"
        yield Way("another-pooling", why, maximum, "Take the mean.", rank=1)
        summed = then(lambda result: result * _count(operation, result))
        yield Way("mean-or-sum", "torch takes the mean over the image, Flax the sum", summed, "Take the mean.")


def adaptive(operation: TorchOperation) -> Iterator[Way]:
    """A plain pool instead of an adaptive one."""
    kind, _, rank = operation.name.removeprefix("adaptive_").rpartition("_pool")
    if not operation.name.startswith("adaptive_") or kind not in ("avg", "max") or not torch.is_tensor(operation.input):
        return
    image, own, *_ = operation.arguments.values()
    lengths = image.shape[2:]
    wanted = [length if n is None else n for n, length in zip(_each(own, len(lengths)), lengths, strict=True)]
    strides = tuple(length // n for length, n in zip(lengths, wanted, strict=True))
    reaching = tuple(length - (n - 1) * step for length, n, step in zip(lengths, wanted, strides, strict=True))
    plain = getattr(F, f"{kind}_pool{rank[0]}d")
    for windows in dict.fromkeys((strides, reaching)):

        def pooled(x: Any, windows: tuple[int, ...] = windows) -> Any:
            return plain(x, windows, strides)

        why = f"Flax pools by windows of {windows} at strides of {strides}, torch by windows that fit {tuple(wanted)}"
        yield Way("adaptive-windows", why, instead(pooled))


def _count(operation: TorchOperation, result: torch.Tensor) -> float:
    return operation.input.numel() / result.numel()


EXPLANATIONS: tuple[Explanation, ...] = (
    padding,
    transposed_padding,
    pad_mode,
    pools,
    resizing,
    concatenation,
    flattening,
    tokens,
    averaging,
    adaptive,
)
