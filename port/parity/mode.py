"""One mode of the two models, evaluation or training, compared: outputs, gradients, layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from port.mapping import TORCH_ONLY, Mapping
from port.parity.calls import Arrays, Call, Run
from port.parity.distance import Limits, difference, gap, largest, why_of
from port.parity.flax_side import FlaxSide
from port.parity.given import Inputs, Layout
from port.parity.gradients import gathered, gradients_in_torchs
from port.parity.layers import LayerPairing
from port.parity.matching import Matched
from port.parity.outputs import Drawn, match_outputs
from port.parity.parting import part_backward, part_forward
from port.parity.report import Finding, LayerRow, Parting
from port.parity.torch_side import TorchSide


@dataclass(frozen=True)
class Models:
    """The two models as they are compared.

    Attributes:
        torch: torch's side.
        flax: Flax's side.
        mapping: from torch's keys to Flax's paths.
        matched: torch's path → the layer on both sides.
        inputs: torch's.
        flax_inputs: Flax's, in its layout.
        layout: of the inputs.
        limits: what a difference may be.
        losses: of torch's outputs and of Flax's, if not the outputs themselves are pulled back.
        single_step: whether layers are run alone where the two sides differ.
    """

    torch: TorchSide
    flax: FlaxSide
    mapping: Mapping
    matched: dict[str, Matched]
    inputs: Inputs
    flax_inputs: Inputs
    layout: Layout
    limits: Limits
    losses: tuple[Any, Any] = (None, None)
    single_step: bool = True


@dataclass
class ModeResult:
    """What comparing one mode found.

    Attributes:
        findings: what differs.
        partings: where the two sides part first.
        rows: the layers.
        calls: of torch's layers and of Flax's.
        flax_layers: Flax's layers by path.
        compared: how many tensors of each kind.
        pairing: what compares the layers.
        outputs: torch's and Flax's, each in its own layout.
        rounded: torch's layer that differs before the one in ``partings``, by float32's rounding, and by how much.
    """

    findings: list[Finding] = field(default_factory=list)
    partings: list[Parting] = field(default_factory=list)
    rows: list[LayerRow] = field(default_factory=list)
    calls: tuple[list[Call], list[Call]] = field(default_factory=lambda: ([], []))
    flax_layers: dict[str, Any] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    pairing: LayerPairing | None = None
    outputs: tuple[Arrays, Arrays] = field(default_factory=lambda: ({}, {}))
    rounded: tuple[str, float] | None = None


def compare_mode(models: Models, torch: Run, drawn: Drawn, *, training: bool) -> ModeResult:
    """Run Flax's side as torch's was run, and compare.

    Args:
        models: the two.
        torch: torch's run in this mode.
        drawn: what was pulled back through torch's outputs.
        training: the mode.
    """
    mode = "training" if training else "evaluation"
    seen: dict[str, Any] = {}

    def pulled(outputs: Arrays) -> Arrays:
        seen["outputs"] = match_outputs(torch.outputs, {**outputs}, models.layout)
        return seen["outputs"].cotangents(drawn.drawn)(outputs)

    flax = models.flax.run(models.flax_inputs, pulled, training=training, loss=models.losses[1])
    matched = match_outputs(torch.outputs, flax.outputs, models.layout)
    result = ModeResult(calls=(torch.calls, flax.calls), outputs=(torch.outputs, flax.outputs))
    result.flax_layers = {call.path: call.layer for call in flax.calls}
    if matched.why:
        result.findings.append(Finding("forward", "the outputs", float("inf"), 0.0, matched.why, mode))
    theirs = {name: torch.outputs[name] for name in matched.names}
    result.findings += _outputs(theirs, matched.in_torchs(flax.outputs), models.limits, mode)
    forward = bool(result.findings)

    own = gathered(models.mapping, torch.gradients, models.torch.guide.tied)
    carried = gradients_in_torchs(models.mapping, flax.gradients)
    most = largest(torch.gradients)
    apart = {key: _gradient(own[key], carried[key], most, models.limits) for key in carried if key in own}
    paths = {key: ", ".join(entry.targets) for entry in models.mapping.entries for key in entry.sources}
    if not matched.why:
        result.findings += [
            Finding("backward", f"{key} → {paths[key]}", value, models.limits.gradient, "", mode)
            for key, value in apart.items()
            if value > models.limits.gradient and gap(own[key], carried[key]) > models.limits.absolute
        ]
        result.findings += _input_gradients(models, torch, flax, mode)
    result.compared = {
        "outputs": len(theirs),
        "gradients": len(apart),
        "gradients of inputs": len(torch.input_gradients),
    }

    result.pairing = pairing = LayerPairing(models.matched, models.layout, models.limits, apart, most)
    rows = pairing.rows(torch, flax)
    result.rows = [row for row, _, _ in rows]
    if result.findings:
        if models.single_step:
            result.rows = [
                _alone(pairing, models, row, theirs_call, ours_call, training) for row, theirs_call, ours_call in rows
            ]
        part = part_forward if forward else part_backward
        result.partings.append(part(result.rows, mode, models.limits))
    return result


def _alone(pairing: LayerPairing, models: Models, row: LayerRow, torch: Call, flax: Call, training: bool) -> LayerRow:
    match = pairing.matched[torch.path]
    forward, backward = pairing.alone(match, torch, flax, (models.torch, models.flax), training=training)
    return replace(row, alone=forward, alone_backward=backward)


def compare_buffers(models: Models, steps: int) -> tuple[list[Finding], int]:
    """The running statistics and other buffers of both sides after some forward passes in training mode.

    Returns:
        what differs, and how many were compared.
    """
    torch = models.torch.buffers_after(models.inputs, steps)
    flax = models.flax.buffers_after(models.flax_inputs, steps)
    findings, count = [], 0
    for entry in models.mapping.present(torch):
        if entry.collection in ("params", TORCH_ONLY):
            continue
        carried = entry(tuple(torch[source] for source in entry.sources))
        for path, array in zip(entry.targets, carried, strict=True):
            count += 1
            apart = difference(array, flax[path])
            if apart > models.limits.forward and gap(array, flax[path]) > models.limits.absolute:
                where = f"{', '.join(entry.sources)} → {path}"
                why = f"after {steps} steps"
                findings.append(Finding("buffers", where, apart, models.limits.forward, why, "training"))
    return findings, count


def _outputs(torch: Arrays, flax: Arrays, limits: Limits, mode: str) -> list[Finding]:
    findings = []
    for name, array in torch.items():
        other = flax[name]
        apart = difference(array, other)
        if apart > limits.forward and gap(array, other) > limits.absolute:
            shapes = f"torch gives shape {array.shape}, Flax {other.shape}"
            why = why_of(apart) if array.shape == other.shape else shapes
            findings.append(Finding("forward", name or "the output", apart, limits.forward, why, mode))
    return findings


def _gradient(torch: np.ndarray, flax: np.ndarray, most: float, limits: Limits) -> float:
    """Relative to the gradient itself, or to the model's largest where it is next to nothing beside that."""
    return difference(torch, flax, scale=most * limits.share)


def _input_gradients(models: Models, torch: Run, flax: Run, mode: str) -> list[Finding]:
    theirs, ours = torch.input_gradients, flax.input_gradients
    if len(theirs) != len(ours):
        return []  # the Flax inputs were given apart
    findings = []
    most = largest(theirs)
    for (name, array), (path, other) in zip(theirs.items(), ours.items(), strict=True):
        first = models.layout.to_first(other) if path in models.layout.moved else other
        if models.layout.moved and first.shape != array.shape and other.ndim == models.layout.rank:
            first = models.layout.to_first(other)
        apart = _gradient(array, first, most, models.limits)
        if apart > models.limits.gradient and gap(array, first) > models.limits.absolute:
            where = f"input {name}"
            findings.append(Finding("input gradient", where, apart, models.limits.gradient, "", mode))
    return findings
