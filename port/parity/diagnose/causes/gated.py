"""A GRU whose reset gate multiplies something else: three different formulas are called GRU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way
from port.parity.diagnose.causes.recurrent import layers_of

New = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""The new gate before its tanh, from its input part, the reset gate, the state, and its hidden weight and bias."""


def reset(operation: TorchOperation) -> Iterator[Way]:
    """The reset gate applied before the product with the hidden weight, or excluding its bias."""
    if operation.name not in ("gru", "gru_cell"):
        return
    remedy = "Multiply by the reset gate after the product, its bias included: port.nn.GRU does."
    why = "Flax's reset gate multiplies the state before the product, torch's the product: W(r · h) for r · (W h)"
    yield Way("reset-before-product", why, _stepped(_before), remedy)
    why = "Flax adds the new gate's hidden bias outside of the reset gate, torch within: r · W h + b for r · (W h + b)"
    yield Way("hidden-bias-outside-reset", why, _stepped(_outside), remedy)


def _before(projected: Any, gate: Any, state: Any, weight: Any, bias: Any) -> torch.Tensor:
    return projected + F.linear(gate * state, weight, bias)


def _outside(projected: Any, gate: Any, state: Any, weight: Any, bias: Any) -> torch.Tensor:
    return projected + gate * F.linear(state, weight) + bias


def _stepped(new: New) -> Callable[[Any, Arguments], Any]:
    """Run torch's GRU step by step, with another new gate."""

    def run(function: Any, arguments: Arguments) -> Any:
        x, states = arguments["input"], arguments["hx"]
        if "params" not in arguments:
            weights = [arguments[name] for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
            return _step(x, states, weights, new)
        steps = x.transpose(0, 1) if arguments["batch_first"] else x
        directions = 2 if arguments["bidirectional"] else 1
        last, outputs = [], []
        for number, weights in enumerate(layers_of(arguments)):
            output, state = _run(steps, states[number], weights, new, reverse=number % directions == 1)
            last.append(state)
            outputs.append(output)
            if len(outputs) == directions:
                steps, outputs = torch.cat(outputs, -1), []
        return steps.transpose(0, 1) if arguments["batch_first"] else steps, torch.stack(last)

    return run


def _run(
    steps: torch.Tensor, state: torch.Tensor, weights: list[torch.Tensor], new: New, *, reverse: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    outputs = []
    for x in steps.flip(0) if reverse else steps:
        state = _step(x, state, weights, new)
        outputs.append(state)
    return torch.stack(outputs[::-1] if reverse else outputs), state


def _step(x: torch.Tensor, state: torch.Tensor, weights: list[torch.Tensor], new: New) -> torch.Tensor:
    """Run one step: (N, in), (N, H) → (N, H), with gates in torch's order r, z, n."""
    w_ih, w_hh, *biases = weights
    zeros = torch.zeros(len(w_ih), dtype=x.dtype)
    b_ih, b_hh = biases if biases else (zeros, zeros)
    projected, hidden = F.linear(x, w_ih, b_ih).chunk(3, -1), F.linear(state, w_hh, b_hh).chunk(3, -1)
    gate, update = torch.sigmoid(projected[0] + hidden[0]), torch.sigmoid(projected[1] + hidden[1])
    candidate = torch.tanh(new(projected[2], gate, state, w_hh.chunk(3)[2], b_hh.chunk(3)[2]))
    return (1 - update) * candidate + update * state


EXPLANATIONS: tuple[Explanation, ...] = (reset,)
