"""Gradients that differ although the values agree: at kinks, and of rows that torch does not train."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

import torch

from port.parity.compare.distance import difference
from port.parity.compare.findings import Parting
from port.parity.compare.gradients import gathered, gradients_in_torchs
from port.parity.compare.mode import Models
from port.parity.compare.mode_result import ModeResult
from port.parity.compare.outputs import match_outputs
from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, having, instead
from port.parity.diagnose.causes.rerun import instrumented
from port.parity.sides.calls import largest
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.run import Run as Pass

_ABS = "jnp.abs has gradient 1 at zero, torch 0"
_CLIP = "jnp.clip has gradient ½ at its edges, torch 0 or 1"
_MOST_STOPPED = 160
"""The most operands, counted back from the output, that are tried without their gradient."""
_HARD = "jax.nn.hard_tanh has gradient 1 at its edges, torch 0"
_RELU = "jnp.maximum(x, 0) has gradient ½ at zero, torch's relu 0"
_MOST = "jnp.max shares the gradient among equal values, torch gives one of them all of it"


def other_gradients(models: Models, result: ModeResult, parting: Parting) -> Iterator[Relation]:
    """Yield the functions with which torch gets Flax's gradients, once they have jax's gradient where torch's differs.

    Args:
        models: the two models.
        result: the result of the mode, whose outputs agree.
        parting: where the two diverge in the backward pass.
    """
    training = parting.mode == "training"
    drawn, loss = RandomCotangents(), models.losses

    def torch_run(ways: dict[int, Way]) -> tuple[Pass, list[TorchOperation]]:
        with instrumented({number: way.run for number, way in ways.items()}, located=True) as operations:
            return models.torch.run(models.inputs, drawn, training=training, loss=loss[0]), operations

    first, operations = torch_run({})
    trained = gathered(models.mapping, first.gradients, models.torch.guide.tied).keys()
    groups: dict[tuple[str, str], dict[int, Way]] = {}
    for operation in operations:
        for explanation in EXPLANATIONS:
            for way in explanation(operation):
                groups.setdefault((way.kind, way.why), {})[operation.number] = way
    stopped = [
        (operation, way)
        for operation in reversed(operations)
        for explanation in STOPPED
        for way in explanation(operation)
    ]
    if not groups and not stopped:
        return
    cotangents = match_outputs(first.outputs, result.outputs[1], models.layout).cotangents(drawn.drawn)
    flax = models.flax.run(models.flax_inputs, cotangents, training=training, loss=loss[1])
    for group in groups.values():
        if _agree(models, torch_run(group)[0], flax, trained):
            way = next(iter(group.values()))
            yield Relation(way.kind, way.why, way.remedy)
            return
    for operation, way in stopped[:_MOST_STOPPED]:
        if _agree(models, torch_run({operation.number: way})[0], flax, trained):
            yield Relation(way.kind, way.why + (way.where or operation.said), way.remedy)
            return


def _agree(models: Models, torch: Pass, flax: Pass, trained: Set[str]) -> bool:
    """Whether every parameter has the same gradient on both sides, and so has every input for which it is known."""
    theirs = gathered(models.mapping, torch.gradients, models.torch.guide.tied)
    ours = gradients_in_torchs(models.mapping, flax.gradients)
    if not ours.keys() & trained <= theirs.keys():
        return False  # a missing gradient agrees with nothing
    pairs = [(theirs[key], ours[key]) for key in ours if key in theirs]
    inputs = zip(torch.input_gradients.values(), flax.input_gradients.values(), strict=False)
    pairs += [(a, models.layout.in_torchs(b, a.shape)) for a, b in inputs]
    scale = models.limits.share * largest(torch.gradients)
    return bool(pairs) and all(
        a.shape == b.shape and difference(a, b, scale=scale) <= models.limits.gradient for a, b in pairs
    )


def kinks(operation: TorchOperation) -> Iterator[Way]:
    """jax's gradient at a kink; the values are equal."""
    name, arguments = operation.name, operation.arguments
    if name == "abs":
        yield Way("gradient-at-a-kink", _ABS, instead(lambda x: torch.where(x >= 0, x, -x)))
    if name == "clamp":
        bounds = arguments.get("min"), arguments.get("max")
        yield Way("gradient-at-a-kink", _CLIP, instead(lambda x: _clipped(x, *bounds)))
    if name == "hardtanh":
        low, high = arguments.get("min_val", -1.0), arguments.get("max_val", 1.0)
        hard = instead(lambda x: torch.where(x > high, high, torch.where(x < low, low, x)))
        yield Way("gradient-at-a-kink", _HARD, hard)
        yield Way("gradient-at-a-kink", _CLIP, instead(lambda x: _clipped(x, low, high)))
    if name == "relu":
        yield Way("gradient-at-a-kink", _RELU, instead(lambda x: _clipped(x, 0.0, None)))
    if name == "max" and len(arguments) > 1:
        yield Way("gradient-at-a-kink", _MOST, _shared)


def _clipped(x: torch.Tensor, low: float | None, high: float | None) -> torch.Tensor:
    """Clamp by tensors: torch then shares the gradient between equal values, as jnp.minimum and jnp.maximum do."""
    for bound, function in ((low, torch.maximum), (high, torch.minimum)):
        x = x if bound is None else function(x, torch.as_tensor(bound, dtype=x.dtype).expand_as(x))
    return x


def _shared(function: Any, arguments: Arguments) -> Any:
    x, dim, *more = arguments.values()
    whole = torch.max(x, dim, *more)
    return type(whole)((torch.amax(x, dim, *more), whole.indices))


def padding_row(operation: TorchOperation) -> Iterator[Way]:
    """An embedding whose padding row is trained like the others."""
    if operation.name == "embedding" and operation.arguments.get("padding_idx") is not None:
        row = operation.arguments["padding_idx"]
        why = f"Flax's embedding trains row {row}, which torch does not train (padding_idx)"
        remedy = f"Take port.nn.Embedding(padding_idx={row})."
        yield Way("padding-row-trained", why, having(padding_idx=None), remedy)
    if operation.name == "embedding" and operation.arguments.get("scale_grad_by_freq"):
        why = "torch divides each row's gradient by its number of occurrences (scale_grad_by_freq), Flax does not"
        remedy = "Take port.nn.Embedding(scale_grad_by_freq=True)."
        yield Way("frequency-not-divided", why, having(scale_grad_by_freq=False), remedy)


def stopped_gradients(operation: TorchOperation) -> Iterator[Way]:
    """An operand treated as a constant, or one that torch treats as a constant and Flax does not."""
    if operation.reads:
        return
    if operation.name == "detach":
        why, remedy = "torch stops the gradient (detach), Flax does not", "Call jax.lax.stop_gradient there."
        yield Way("gradient-not-stopped", why, instead(lambda x: x), remedy)
        return
    last = [*operation.operands][-1:]
    for key, value in operation.operands.items():
        if value.requires_grad:
            part = "its last operand" if [key] == last and len(operation.operands) > 1 else "its operand"
            why = f"Flax stops the gradient of {part} in {operation.base}"
            remedy = "Take jax.lax.stop_gradient out, or detach in torch too."
            yield Way("gradient-stopped", why, having(**{key: value.detach()}), remedy)


EXPLANATIONS: tuple[Explanation, ...] = (kinks, padding_row)
STOPPED: tuple[Explanation, ...] = (stopped_gradients,)
"""Tried one operation at a time, after the others."""
