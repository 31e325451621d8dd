"""Attention heads and fused projections split in another order; rotary embeddings by halves or by pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations
from math import prod
from typing import Any

import torch

from port.parity.diagnose.causes.operation import Arguments, Explanation, Run, TorchOperation, Way, instead, then

_MOST_PARTS = 4
_REMEDY = "Split the features in torch's order, or permute the projection's kernel."


def _split(operation: TorchOperation) -> tuple[int, tuple[int, ...]] | None:
    """Return the axis that a reshape splits, and the lengths it is split into."""
    if operation.name not in ("view", "reshape", "unflatten") or not torch.is_tensor(operation.input):
        return None
    before = tuple(operation.input.shape)
    arguments = list(operation.arguments.values())[1:]
    if operation.name == "unflatten":
        axis, sizes = (operation.arguments.get("dim", arguments[0]), arguments[-1])
        sizes = _filled(tuple(sizes), before[axis])
        return axis % len(before), sizes
    sizes = arguments[0] if arguments and isinstance(arguments[0], tuple | list) else arguments
    after = _filled(tuple(sizes), prod(before))
    start = next((place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    end = next((n for n, (a, b) in enumerate(zip(before[::-1], after[::-1], strict=False)) if a != b), 0)
    if start == len(before) - 1 - end and len(after) > len(before):
        return start, after[start : len(after) - end]
    return None


def _filled(sizes: tuple[Any, ...], total: int) -> tuple[int, ...]:
    known = prod(size for size in sizes if size != -1)
    return tuple(total // known if size == -1 else int(size) for size in sizes)


def order(operation: TorchOperation) -> Iterator[Way]:
    """The features of a projection split into heads (or into query, key and value) in another order."""
    split = _split(operation)
    if split is None or not 2 <= len(split[1]) <= 3:
        return
    axis, sizes = split
    count = len(sizes)
    for turned in permutations(range(count)):
        if turned == tuple(range(count)) or min(sizes) < 2:
            continue
        theirs = tuple(sizes[place] for place in turned)
        why = f"torch splits the features into {sizes}, Flax into {theirs} and takes the axes in another order"
        back = [axis + turned.index(place) for place in range(count)]
        yield Way("head-order", why, _split_as(axis, theirs, back), _REMEDY, together=2)
    *fused, heads, depth = sizes
    for other in range(1, heads * depth + 1):
        if (heads * depth) % other == 0 and other != heads:
            why = f"torch has {heads} heads, Flax {other}"
            run = _of_heads(axis, (*fused, other, heads * depth // other))
            yield Way("number-of-heads", why, run, f"Give it {heads} heads.", rank=1)


def _of_heads(axis: int, sizes: tuple[int, ...]) -> Run:
    return _split_as(axis, sizes, range(axis, axis + len(sizes)))


def _split_as(axis: int, sizes: tuple[int, ...], back: Sequence[int]) -> Run:
    def run(function: Any, arguments: Arguments) -> Any:
        x = next(iter(arguments.values()))
        apart = x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])
        return apart.permute(*range(axis), *back, *range(axis + len(sizes), apart.ndim))

    return run


def parts(operation: TorchOperation) -> Iterator[Way]:
    """The parts of a fused projection in another order, such as key, query, value instead of query, key, value."""
    if operation.name not in ("chunk", "split", "unbind", "tensor_split"):
        return
    found = list(operation.arguments.values())[1:]
    count = found[0] if operation.name == "chunk" and found else 3
    if not isinstance(count, int) or not 2 <= count <= _MOST_PARTS:
        return
    for turned in permutations(range(count)):
        if turned != tuple(range(count)):
            why = f"Flax takes the {count} parts of the projection in another order, torch's {turned}"
            run = then(partial(_turned, order=turned))
            # Two parts may be rotary halves: swapped, they turn the other way.
            yield Way("projection-order", why, run, _REMEDY, rank=1 if count > 2 else 2)


def _turned(result: Any, *, order: tuple[int, ...]) -> tuple[Any, ...]:
    if len(result) != len(order):
        raise ValueError("another number of parts")
    return tuple(result[place] for place in order)


def rotary(operation: TorchOperation) -> Iterator[Way]:
    """Rotary embeddings that turn interleaved pairs instead of halves, or vice versa.

    Either way, the logits are those of the other kind with the features of query and key permuted.
    """
    split = _split(operation)
    if split is None or split[1][-1] % 2 or split[1][-1] < 4:
        return
    axis, sizes = split
    width, last = sizes[-1], axis + len(sizes) - 1
    halves = torch.arange(width).reshape(2, width // 2).T.flatten()
    for places, why in (
        (halves.argsort(), "Flax's rotary positions turn interleaved pairs, torch's the two halves"),
        (halves, "Flax's rotary positions turn the two halves, torch's interleaved pairs"),
    ):
        remedy = "Pair the features as torch does, or permute the kernels of query and key within each head."
        if len(sizes) == 3 and sizes[0] == 3:
            run = _of_query_and_key(axis, last, places)
            yield Way("rotary-pairing", why, run, remedy=remedy, rank=1)
        else:
            run = then(partial(torch.index_select, dim=last, index=places))
            yield Way("rotary-pairing", why, run, remedy=remedy, rank=1, together=2)


def _of_query_and_key(axis: int, last: int, places: torch.Tensor) -> Run:
    def change(result: torch.Tensor) -> torch.Tensor:
        query, key, value = result.unbind(axis)
        turned = [part.index_select(last - 1, places) for part in (query, key)]
        return torch.stack([*turned, value], axis)

    return then(change)


def rotation(operation: TorchOperation) -> Iterator[Way]:
    """Rotary embeddings that turn the other way, or not at all."""
    if operation.name == "sin":
        remedy = "Turn by (x₁ cos − x₂ sin, x₁ sin + x₂ cos)."
        why = "Flax's angles have the other sign: rotary positions turn the other way, or are counted backwards"
        yield Way("rotary-direction", why, then(lambda result: -result), remedy=remedy, rank=1)
    if operation.name in ("sin", "cos"):  # both at once: an angle of zero
        still = torch.zeros_like if operation.name == "sin" else torch.ones_like
        why, remedy = "Flax does not turn by rotary positions", "Turn query and key, as torch does."
        yield Way("rotary-missing", why, instead(still), remedy=remedy, rank=1)


EXPLANATIONS: tuple[Explanation, ...] = (order, parts, rotary, rotation)
