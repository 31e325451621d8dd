"""A layer that Flax does not call, calls twice, or replaces by another of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from port.parity.diagnose.causes.operation import Arguments, TorchOperation, Way, do

_MOST_OTHERS = 8


def of_layers(calls: Sequence[TorchOperation], modules: Mapping[str, nn.Module]) -> Iterator[tuple[int, Way]]:
    """Yield the changes of layer calls, the last call first.

    Args:
        calls: the layer calls.
        modules: torch's modules by their paths.
    """
    for call in reversed(calls):
        operand = next(iter(call.operands.items()), None)
        if operand is None or not torch.is_tensor(call.result):
            continue
        key, x = operand
        if x.shape == call.result.shape:
            why = f"Flax does not call {call.layer} there"
            yield call.number, Way("layer-missing", why, _left_out(key), "Call it, as torch does.")
            why = f"Flax calls {call.layer} twice there"
            yield call.number, Way("layer-twice", why, _twice(key), "Call it once.")
        for path in _others(call.layer, modules):
            why = f"Flax calls {path} where torch calls {call.layer}"
            yield call.number, Way("another-layer", why, _another(modules[path]), f"Call {call.layer}.")


def _others(path: str, modules: Mapping[str, nn.Module]) -> list[str]:
    """Return layers that may be confused with a layer: of its class, with parameters of its shapes."""
    own = modules.get(path)
    if own is None:
        return []
    shapes = _shapes(own)
    alike = [
        other
        for other, module in modules.items()
        if other and other != path and type(module) is type(own) and shapes and _shapes(module) == shapes
    ]
    return alike[:_MOST_OTHERS]


def _shapes(module: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(parameter.shape)) for name, parameter in module.named_parameters()]


def _left_out(key: str) -> Any:
    return lambda function, arguments: arguments[key]


def _twice(key: str) -> Any:
    return lambda function, arguments: do(function, {**arguments, key: do(function, arguments)})


def _another(module: nn.Module) -> Any:
    def run(function: Any, arguments: Arguments) -> Any:
        return do(module.forward, arguments)

    return run
