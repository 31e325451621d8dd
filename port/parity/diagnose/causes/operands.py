"""Another tensor than the one torch takes, two steps in the other order, or an extra step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from port.parity.diagnose.causes.activations import ACTIVATIONS
from port.parity.diagnose.causes.operation import Arguments, TorchOperation, Way, do, having, instead, then
from port.parity.sides.structure import leaves

Named = tuple[str, torch.Tensor]
_STEPS: dict[str, Any] = {
    **{name: ACTIVATIONS[name] for name in ("relu", "gelu", "gelu's tanh approximation", "silu", "tanh", "sigmoid")},
    "softmax": partial(torch.softmax, dim=-1),
    "log_softmax": partial(torch.log_softmax, dim=-1),
    "exp": torch.exp,
    "the square": torch.square,
    "the root": torch.sqrt,
    "the last axis in reverse": lambda x: x.flip(-1),
}
_NEAREST, _MOST_OTHERS, _MOST_ADDED = 32, 24, 16


def exchanged(steps: Sequence[TorchOperation]) -> Iterator[tuple[int, Way]]:
    """Yield swaps of two steps, one of which takes the other's result; the last first.

    Args:
        steps: calls of functions and layers.
    """
    makers = {id(step.result): step for step in steps if torch.is_tensor(step.result)}
    for step in reversed(steps):
        for key, taken in step.operands.items():
            before = makers.get(id(taken))
            if before is None or before is step or before.function is None:
                continue
            for other in before.operands:
                if before.operands[other] is not taken and before.operands[other].is_floating_point():
                    why = f"Flax does {_called(step)} first and then {_called(before)}, torch the other way round"
                    run = _turned(before, other, key)
                    yield step.number, Way("order-of-steps", why, run, "Use torch's order.")


def _turned(before: TorchOperation, other: str, key: str) -> Any:
    """Apply the step to the input of the step before it, and that one to the result."""

    def run(function: Any, arguments: Arguments) -> Any:
        inner = do(function, {**arguments, key: before.arguments[other]})
        return do(before.function, {**before.arguments, other: inner})

    return run


def others(
    steps: Sequence[TorchOperation], before: Sequence[TorchOperation], weights: Sequence[Named]
) -> Iterator[Any]:
    """Yield another tensor of the same shape for one that an operation takes, the last operation first.

    Args:
        steps: the operations that may take another tensor.
        before: all operations before, in order.
        weights: the model's parameters, by name.
    """
    known = [*_known(before), *((name, -1, tensor) for name, tensor in weights)]
    for step in list(reversed(steps))[:_NEAREST]:
        done = {id(tensor) for tensor in _tensors(step.result)}
        begun = _place(step, before)
        for key, taken in _taken(step):
            if not taken.ndim or taken.numel() < 2:
                continue
            tried = {id(taken), *done}
            fitting = []
            for name, place, tensor in reversed(known):
                alike = tensor.shape == taken.shape and tensor.dtype == taken.dtype and place < begun
                if alike and id(tensor) not in tried:
                    tried.add(id(tensor))
                    fitting.append((name, tensor))
            own = next((name for name, _, tensor in known if tensor is taken), "another tensor")
            for name, tensor in fitting[:_MOST_OTHERS]:
                why = f"Flax takes {name} where torch takes {own}, in {_called(step)}"
                yield step.number, Way("another-operand", why, _with_operand(key, tensor.detach()), f"Take {own}.")


def replaced(steps: Sequence[TorchOperation], before: Sequence[TorchOperation]) -> Iterator[tuple[int, Way]]:
    """Yield an earlier tensor of the same shape for a result that several steps take, the last step first.

    Args:
        steps: the operations whose results may be replaced.
        before: all operations before, in order.
    """
    known = list(_known(before))
    uses = Counter(id(taken) for step in steps for _, taken in _taken(step))
    for step in list(reversed(steps))[:_NEAREST]:
        result = step.result
        if not torch.is_tensor(result) or not result.ndim or uses[id(result)] < 2:
            continue
        begun, tried = _place(step, before), {id(result)}
        fitting = []
        for name, place, tensor in reversed(known):
            alike = tensor.shape == result.shape and tensor.dtype == result.dtype and place < begun
            if alike and id(tensor) not in tried:
                tried.add(id(tensor))
                fitting.append((name, tensor))
        for name, tensor in fitting[:_MOST_OTHERS]:
            why = f"Flax takes {name} where torch takes what {_called(step)} gives"
            run = instead(partial(_constant, tensor.detach()))
            yield step.number, Way("another-operand", why, run, "Take what torch takes.")


def _constant(tensor: torch.Tensor, _: Any) -> torch.Tensor:
    return tensor


def _taken(step: TorchOperation) -> Iterator[tuple[str | tuple[str, int], torch.Tensor]]:
    """Yield the tensors that a step takes, by the argument's name, and by index within a list argument."""
    for key, value in step.arguments.items():
        if torch.is_tensor(value):
            yield key, value
        elif isinstance(value, list | tuple):
            yield from (((key, place), each) for place, each in enumerate(value) if torch.is_tensor(each))


def _with_operand(key: str | tuple[str, int], tensor: torch.Tensor) -> Any:
    """Return a run of a step with another tensor for one that it takes."""
    if isinstance(key, str):
        return having(**{key: tensor})
    name, number = key

    def run(function: Any, arguments: Arguments) -> Any:
        parts = list(arguments[name])
        parts[number] = tensor
        return do(function, {**arguments, name: parts})

    return run


def in_one_use(
    steps: Sequence[TorchOperation], explained: Callable[[TorchOperation], Iterator[Way]]
) -> Iterator[tuple[int, Way]]:
    """Yield a result that several steps take, computed in another way for only one of them; the last step first.

    Args:
        steps: calls of functions and layers.
        explained: the known ways to change one operation.
    """
    makers = {id(step.result): step for step in steps if torch.is_tensor(step.result)}
    uses = Counter(id(taken) for step in steps for taken in step.operands.values())
    for step in list(reversed(steps))[:_NEAREST]:
        for key, taken in step.operands.items():
            maker = makers.get(id(taken))
            if maker is None or maker is step or maker.function is None or uses[id(taken)] < 2:
                continue
            for way in explained(maker):
                run = _made_otherwise(key, maker, way)
                yield step.number, replace(way, why=f"for {_called(step)} alone, {way.why}", run=run, where=maker.said)


def _made_otherwise(key: str, maker: TorchOperation, way: Way) -> Any:
    """Return a run of a step that takes a result computed in another way."""
    return lambda function, arguments: do(
        function, {**arguments, key: way.run(maker.function, maker.arguments).detach()}
    )


def added(steps: Sequence[TorchOperation], layers: Sequence[TorchOperation]) -> Iterator[tuple[int, Way]]:
    """Yield extra steps on a result that torch uses unchanged: a function, or one of the model's layers.

    Args:
        steps: the operations whose results may go through it.
        layers: the layer calls.
    """
    for step in list(reversed(steps))[:_MOST_ADDED]:
        result = step.result
        if not torch.is_tensor(result) or not result.is_floating_point() or not result.ndim:
            continue
        for name, function in _STEPS.items():
            why = f"Flax takes {name} of what {_called(step)} gives, torch does not"
            yield step.number, Way("step-added", why, then(function), "Remove it.")
        for call in {call.layer: call for call in layers if call.layer != step.layer}.values():
            operand = next(iter(call.operands.values()), None)
            if operand is None or not torch.is_tensor(call.result) or call.result.shape != operand.shape:
                continue
            if operand.shape[-1:] == result.shape[-1:] and operand.ndim == result.ndim:
                why = f"Flax calls {call.layer} on what {_called(step)} gives, torch does not"
                yield step.number, Way("step-added", why, then(call.function), "Remove it.")


def _known(steps: Sequence[TorchOperation]) -> Iterator[tuple[str, int, torch.Tensor]]:
    """Yield the tensors of a run, each with a readable name and the step after which it exists."""
    for place, step in enumerate(steps):
        if step.number < 0:
            for number, value in enumerate(step.operands.values()):
                yield f"the input of {step.layer}" if not number else f"input {number} of {step.layer}", -1, value
        made = list(_tensors(step.result))
        for number, value in enumerate(made):
            part = f", part {number}," if len(made) > 1 else ""
            yield f"what {_called(step)} gives{part}", place, value
        for value in step.operands.values():
            yield f"an operand of {_called(step)}", place - 1, value


def _place(step: TorchOperation, steps: Sequence[TorchOperation]) -> int:
    return next((place for place, other in enumerate(steps) if other.number == step.number), len(steps))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for leaf in leaves(value).values():
        if torch.is_tensor(leaf):
            yield leaf


def _called(step: TorchOperation) -> str:
    """Describe a step for readers."""
    return step.layer if step.number < 0 else f"{step.base} ({step.line})" if step.line else step.base
