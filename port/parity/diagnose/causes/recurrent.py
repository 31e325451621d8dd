"""LSTM and GRU with their gates in another order, without a bias, or run backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch

from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, do, having

_GATES = {"lstm": "ifgo", "gru": "rzn", "lstm_cell": "ifgo", "gru_cell": "rzn"}
_OF_A_CELL = ("w_ih", "w_hh", "b_ih", "b_hh")


def gates(operation: TorchOperation) -> Iterator[Way]:
    """Every order of the gates."""
    names = _GATES.get(operation.name, "")
    if not names or not (_is_cell(operation) or isinstance(operation.arguments.get("params"), list)):
        return
    for order in permutations(range(len(names))):
        if order != tuple(range(len(names))):
            theirs = ", ".join(names[place] for place in order)
            why = f"Flax's gates are in the order {theirs}, torch's {', '.join(names)}"
            yield Way("gate-order", why, _with_weights(_reordered(order)))


def biases(operation: TorchOperation) -> Iterator[Way]:
    """A missing bias, or both."""
    if operation.name not in _GATES or not _has_biases(operation):
        return
    for place, name in ((2, "bias_ih"), (3, "bias_hh")):
        remedy = "Add both of torch's biases."
        why = f"Flax's layer does not add {name}"
        yield Way("bias-missing", why, _with_weights(_without(place)), remedy)
    both = _with_weights(lambda weights: _without(2)(_without(3)(weights)))
    yield Way("bias-missing", "Flax's layer adds neither of torch's biases", both, "Add both of torch's biases.")


def backwards(operation: TorchOperation) -> Iterator[Way]:
    """The sequence run backwards."""
    if operation.name not in _GATES or _is_cell(operation) or operation.arguments.get("bidirectional"):
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
            remedy = "Pass torch's initial state."
            yield Way(
                "first-state-missing", "Flax starts from zeros, torch from an initial state", changed, remedy=remedy
            )


def forget_gate(operation: TorchOperation) -> Iterator[Way]:
    """An LSTM's forget gate with 1 added, as in Keras and haiku."""
    if operation.name in ("lstm", "lstm_cell") and _has_biases(operation):
        why = "Flax's forget gate has 1 added to its bias"
        yield Way("forget-bias", why, _with_weights(_forgetting), "Add nothing to the forget gate.")


def _with_weights(change: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> Any:
    """Return a run with other weights: four per layer and direction, w_ih, w_hh, b_ih, b_hh, or two without biases."""

    def run(function: Any, arguments: Arguments) -> Any:
        if "params" not in arguments:
            weights = change([arguments[name] for name in _OF_A_CELL if arguments.get(name) is not None])
            return do(function, {**arguments, **dict(zip(_OF_A_CELL, weights, strict=False))})
        changed = [weight for layer in layers_of(arguments) for weight in change(layer)]
        return do(function, {**arguments, "params": changed})

    return run


def layers_of(arguments: Arguments) -> list[list[torch.Tensor]]:
    """Return the weights of each layer and direction."""
    weights, count = arguments["params"], 4 if arguments["has_biases"] else 2
    return [weights[start : start + count] for start in range(0, len(weights), count)]


def _is_cell(operation: TorchOperation) -> bool:
    return operation.name.endswith("_cell") and operation.arguments.get("w_hh") is not None


def _has_biases(operation: TorchOperation) -> bool:
    arguments = operation.arguments
    return arguments.get("b_hh") is not None if _is_cell(operation) else bool(arguments.get("has_biases"))


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


def padded(operation: TorchOperation) -> Iterator[Way]:
    """Sequences of different lengths, run to the end of their padding."""
    if operation.name == "_pack_padded_sequence":
        axis = 1 if operation.arguments.get("batch_first") else 0
        why = "Flax runs on over the padding, torch ends at each sequence's own length"

        def all_of_it(function: Any, arguments: Arguments) -> Any:
            longest = torch.full_like(arguments["lengths"], arguments["input"].shape[axis])
            return do(function, {**arguments, "lengths": longest})

        yield Way("padding-read", why, all_of_it)


EXPLANATIONS: tuple[Explanation, ...] = (gates, biases, backwards, forget_gate, padded)
