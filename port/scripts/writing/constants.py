"""Tensors filled with one number, such as a GAN's labels: written from the tensor whose shape they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from port.scripts.observing.graph import Computation
from port.scripts.writing.capture import FilledTensor, LossPath, PathTensor, mapped, path_tensors

MAKERS = {
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1.0),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero_"), 0.0),
    **dict.fromkeys(("full", "full_like", "new_full", "fill_")),
}
"""Functions that return such a tensor → the number; None if it is an argument."""
KEEPS = {
    *("to", "cpu", "cuda", "float", "double", "type_as", "requires_grad_", "detach", "clone"),
    *("view", "reshape", "expand", "expand_as", "squeeze", "unsqueeze", "flatten"),
}
"""Methods after which a tensor still holds one number."""


def with_constants(paths: Sequence[LossPath]) -> list[LossPath]:
    """The same paths, with a `FilledTensor` for each tensor that is constant in all of them.

    Args:
        paths: paths of the same calls, one per step.
    """
    made = [_made(path.calls) for path in paths]
    chosen: dict[tuple[int, int], tuple[float, int]] = {}
    for place in range(len(paths[0].calls)):
        rows = [path_tensors(path.calls[place].live) for path in paths]
        for number in range(len(rows[0])):
            found = {_filled(row, number, known) for row, known in zip(rows, made, strict=True)}
            if len(found) == 1 and (one := found.pop()) is not None:
                chosen[place, number] = one
    return [
        replace(path, calls=[_written(call, place, chosen) for place, call in enumerate(path.calls)]) for path in paths
    ]


def _made(calls: Sequence[Computation]) -> dict[int, float]:
    """The calls that return a tensor filled with one number, with the number."""
    found: dict[int, float] = {}
    for call in calls:
        method = call.name.rpartition(".")[2]
        first = next((one.call for one in path_tensors(call.live)), None)
        if call.kind != "function":
            continue
        if method in MAKERS and (number := _number(call, MAKERS[method])) is not None:
            found[call.number] = number
        elif method in KEEPS and first in found:
            found[call.number] = found[first]
    return found


def _number(call: Computation, number: float | None) -> float | None:
    """The number with which a call fills a tensor; None if a tensor holds it."""
    if number is not None:
        return number
    positional, named = call.live if call.live is not None else ((), {})
    value = named.get("fill_value", named.get("value", positional[-1] if positional else None))
    return float(value) if isinstance(value, bool | int | float) else None


def _filled(row: Sequence[PathTensor], number: int, made: Mapping[int, float]) -> tuple[float, int] | None:
    """The number that fills a tensor, and the index of another argument of its shape; None if either is missing."""
    one = row[number]
    if one.call is None or one.call not in made:
        return None
    for place, other in enumerate(row):
        if place != number and other.call not in made and other.description["tensor"] == one.description["tensor"]:
            return made[one.call], place
    return None


def _written(call: Computation, place: int, chosen: Mapping[tuple[int, int], tuple[float, int]]) -> Computation:
    row = path_tensors(call.live)
    count = -1

    def change(tensor: PathTensor) -> Any:
        nonlocal count
        count += 1
        if (place, count) not in chosen:
            return tensor
        value, like = chosen[place, count]
        return FilledTensor(value, row[like])

    if not any(key[0] == place for key in chosen):
        return call
    found = replace(call)
    found.live = mapped(call.live, change)
    return found
