"""A step that Flax leaves out, or confuses with a similar one, such as a reshape instead of a transpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, instead

RANK = 3
"""These explanations apply to any step, so they come after the known mistakes of specific ones."""
_MOVES = ("transpose", "permute", "movedim", "swapaxes", "t", "mT")
_NO_STEP = ("contiguous", "clone", "to", "view", "reshape", "type_as", "float", "double", "expand", "dropout", "_line")


def left_out(operation: TorchOperation) -> Iterator[Way]:
    """An operation that returns its input; with two operands, either of them."""
    result = operation.result
    if not torch.is_tensor(result) or operation.name in _NO_STEP:
        return
    tensors = [(key, value) for key, value in operation.operands.items() if _fits(value, result)]
    for key, _ in tensors:
        others = [name for name in operation.operands if name != key]
        if others and len(operation.operands) == 2:
            said = {"add": "the addition", "mul": "the product", "sub": "the difference", "div": "the quotient"}
            why = f"Flax leaves out {said.get(operation.base, operation.name)}"
            why += f", and has its {'first' if key == next(iter(operation.arguments)) else 'second'} operand there"
        elif len(operation.operands) == 1:
            why = f"Flax leaves out {operation.base}"
        else:
            continue

        def run(_: Any, arguments: Arguments, key: str = key) -> Any:
            return arguments[key].expand(result.shape)

        kind = "addition-missing" if operation.base == "add" else "step-missing"
        yield Way(kind, why, run, "Do what torch does there.", rank=RANK)


def _fits(value: torch.Tensor, result: torch.Tensor) -> bool:
    return value.dtype == result.dtype and value.ndim <= result.ndim and value.shape == result.shape


def moved(operation: TorchOperation) -> Iterator[Way]:
    """Axes that torch transposes and Flax only reshapes."""
    result = operation.result
    if operation.name not in _MOVES or not torch.is_tensor(result) or result.shape == operation.input.shape:
        return
    why = f"torch moves the axes ({operation.name}), Flax reshapes without moving them"
    run = instead(lambda x: x.reshape(result.shape))
    yield Way("axes-not-moved", why, run, "Move the axes as torch does.", rank=RANK, together=2)


def interleaved(operation: TorchOperation) -> Iterator[Way]:
    """Halves instead of every other element, or vice versa, in concatenations and splits."""
    name, arguments = operation.name, operation.arguments
    tensors = arguments.get("tensors")
    if name == "cat" and isinstance(tensors, tuple | list) and _are_alike(tensors):
        dim = arguments.get("dim", 0)
        why = "torch puts the parts one after the other, Flax takes a place of each in turn"

        def in_turn(function: Any, arguments: Arguments) -> Any:
            place = dim % arguments["tensors"][0].ndim
            return torch.stack(list(arguments["tensors"]), place + 1).flatten(place, place + 1)

        yield Way("interleaved", why, in_turn, "Concatenate them.", rank=RANK, together=2)
    if name == "stack" and isinstance(tensors, tuple | list) and _are_alike(tensors):
        dim = arguments.get("dim", 0) % (tensors[0].ndim + 1)
        if dim == tensors[0].ndim:
            why = "torch takes a place of each part in turn, Flax puts one after the other"

            def behind(function: Any, arguments: Arguments) -> Any:
                parts = list(arguments["tensors"])
                return torch.cat(parts, -1).reshape(*parts[0].shape, len(parts))

            yield Way("interleaved", why, behind, "Stack them along the last axis.", rank=RANK)
    count = arguments.get("chunks")
    if name == "chunk" and isinstance(count, int) and torch.is_tensor(operation.input):
        dim = arguments.get("dim", 0) % operation.input.ndim
        if operation.input.shape[dim] % count == 0:
            why = "torch's parts lie one after the other, Flax's take every other place"

            def every_other(function: Any, arguments: Arguments) -> Any:
                x = next(iter(arguments.values()))
                places = torch.arange(x.shape[dim])
                return tuple(x.index_select(dim, places[start::count]) for start in range(count))

            yield Way("interleaved", why, every_other, "Split as torch.chunk does.", rank=RANK)
    if name in ("getitem", "__setitem__") and torch.is_tensor(operation.input):
        yield from _of_places(operation)


def _of_places(operation: TorchOperation) -> Iterator[Way]:
    """``x[..., 0::2]`` instead of the first half."""
    key = [*operation.arguments][1]
    index = operation.arguments[key]
    places = list(index) if isinstance(index, tuple) else [index]
    ahead = places.index(Ellipsis) if any(place is Ellipsis for place in places) else len(places)
    for number, place in enumerate(places):
        if isinstance(place, slice) and place.step is not None and place.step > 1 and place.stop is None:
            axis = number if number < ahead else number - len(places)
            length, step, start = operation.input.shape[axis], place.step, place.start or 0
            if length % step:
                continue
            half = slice(start * (length // step), (start + 1) * (length // step))
            changed = (*places[:number], half, *places[number + 1 :])
            why = f"torch takes every place in {step} along an axis, Flax the halves"

            def run(function: Any, arguments: Arguments, changed: tuple[Any, ...] = changed) -> Any:
                first, _, *others = arguments.values()
                return function(first, changed, *others)

            yield Way("interleaved", why, run, "Take them in turn, as torch does.", rank=RANK)


def _are_alike(tensors: Any) -> bool:
    return len(tensors) > 1 and len({tuple(tensor.shape) for tensor in tensors}) == 1


EXPLANATIONS: tuple[Explanation, ...] = (left_out, moved, interleaved)
