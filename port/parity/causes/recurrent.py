"""LSTM and GRU with their gates in another order, without a bias, or run from the other end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch

from port.parity.causes.operation import Arguments, Explanation, Operation, Way, do, having

_GATES = {"lstm": "ifgo", "gru": "rzn"}


def gates(operation: Operation) -> Iterator[Way]:
    """Every order of the gates."""
    names = _GATES.get(operation.name, "")
    if not names or not isinstance(operation.arguments.get("params"), list):
        return
    note = "W13" if operation.name == "lstm" else "W14"
    for order in permutations(range(len(names))):
        if order != tuple(range(len(names))):
            theirs = ", ".join(names[place] for place in order)
            why = f"Flax's gates are in the order {theirs}, torch's {', '.join(names)}"
            yield Way("gate-order", why, _with_weights(_reordered(order)), note)


def biases(operation: Operation) -> Iterator[Way]:
    """Without one of the two biases."""
    if operation.name not in _GATES or not operation.arguments.get("has_biases"):
        return
    note = "W13" if operation.name == "lstm" else "W14"
    for place, name in ((2, "bias_ih"), (3, "bias_hh")):
        remedy = "Add both of torch's biases."
        why = f"Flax's layer does not add {name}"
        yield Way("bias-missing", why, _with_weights(_without(place)), note, remedy)
    both = _with_weights(lambda weights: _without(2)(_without(3)(weights)))
    yield Way("bias-missing", "Flax's layer adds neither of torch's biases", both, note, "Add both of torch's biases.")


def backwards(operation: Operation) -> Iterator[Way]:
    """The sequence from its end."""
    if operation.name not in _GATES or operation.arguments.get("bidirectional"):
        return
    axis = 1 if operation.arguments.get("batch_first") else 0

    def run(function: Any, arguments: Arguments) -> Any:
        output, *others = do(function, {**arguments, "input": arguments["input"].flip(axis)})
        return output.flip(axis), *others

    yield Way("sequence-reversed", "Flax runs through the sequence from its end", run, remedy="Drop reverse=True.")
    first = operation.arguments.get("hx")
    if first is not None:
        starts = first if isinstance(first, tuple | list) else (first,)
        if any(bool(start.any()) for start in starts):
            zeros = tuple(torch.zeros_like(start) for start in starts)
            changed = having(hx=zeros if isinstance(first, tuple | list) else zeros[0])
            remedy = "Give it torch's first state."
            yield Way("first-state-missing", "Flax starts from zeros, torch from a given state", changed, remedy=remedy)


def cell(operation: Operation) -> Iterator[Way]:
    """An LSTM's forget gate with 1 added, as Keras and haiku have it."""
    if operation.name == "lstm":
        why = "Flax's forget gate has 1 added to its bias"
        yield Way("forget-bias", why, _with_weights(_forgetting), "W13", "Add nothing to the forget gate.")


def _with_weights(change: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> Any:
    """The same with other weights: four a layer and direction, w_ih, w_hh, b_ih, b_hh, or two without biases."""

    def run(function: Any, arguments: Arguments) -> Any:
        weights, count = arguments["params"], 4 if arguments["has_biases"] else 2
        layers = [weights[start : start + count] for start in range(0, len(weights), count)]
        return do(function, {**arguments, "params": [weight for layer in layers for weight in change(layer)]})

    return run


def _reordered(order: tuple[int, ...]) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    def change(weights: list[torch.Tensor]) -> list[torch.Tensor]:
        chunks = [weight.chunk(len(order)) for weight in weights]
        return [torch.cat([chunk[place] for place in order]) for chunk in chunks]

    return change


def _without(place: int) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    return lambda weights: [torch.zeros_like(weight) if n == place else weight for n, weight in enumerate(weights)]


def _forgetting(weights: list[torch.Tensor]) -> list[torch.Tensor]:
    w_ih, w_hh, b_ih, b_hh = weights
    width = len(b_ih) // 4
    added = torch.zeros_like(b_ih)
    added[width : 2 * width] = 1.0
    return [w_ih, w_hh, b_ih + added, b_hh]


EXPLANATIONS: tuple[Explanation, ...] = (gates, biases, backwards, cell)
