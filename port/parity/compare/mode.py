"""Compare two models in one mode, evaluation or training: outputs, gradients, layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from port.judging import Limits
from port.mapping import TORCH_ONLY, Mapping
from port.parity.compare.control import Control
from port.parity.compare.distance import difference, why_of
from port.parity.compare.findings import Finding, LayerRow
from port.parity.compare.first_divergence import part_backward, part_forward
from port.parity.compare.gradients import gathered, gradients_in_torchs
from port.parity.compare.judge import Judge
from port.parity.compare.layer_matching import Matched
from port.parity.compare.layers import LayerPairing, packs
from port.parity.compare.mode_result import ModeResult
from port.parity.compare.outputs import match_outputs
from port.parity.sides.calls import Arrays, RecordedCall, largest
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.flax_side import FlaxSide
from port.parity.sides.inputs import InputLayout, Inputs
from port.parity.sides.parts import Part
from port.parity.sides.run import (
    BUFFERS,
    GRADIENTS,
    INPUT_GRADIENTS,
    NO_NUMBERS_IN,
    OUTPUTS,
    Cotangents,
    Kinds,
    Run,
    are_empty,
)
from port.parity.sides.structure import leaves
from port.parity.sides.torch_side import TorchSide


@dataclass(frozen=True)
class Models:
    """The two models under comparison.

    Attributes:
        torch: torch's side.
        flax: Flax's side.
        mapping: from torch's keys to Flax's paths.
        matched: torch's path → the layer on both sides.
        inputs: torch's inputs.
        flax_inputs: Flax's inputs, in its layout.
        layout: the inputs' layout.
        limits: the largest allowed differences.
        losses: losses of torch's outputs and of Flax's, if gradients are not pulled back from the outputs themselves.
        single_step: whether to run layers alone where the two sides differ.
        unfit: why gradients do not fit into memory, and are not compared; empty if they do.
        parts: parts of the parameters whose gradients are taken in turn; None is all at once.
    """

    torch: TorchSide
    flax: FlaxSide
    mapping: Mapping
    matched: dict[str, Matched]
    inputs: Inputs
    flax_inputs: Inputs
    layout: InputLayout
    limits: Limits
    losses: tuple[Any, Any] = (None, None)
    single_step: bool = True
    unfit: str = ""
    parts: tuple[Part | None, ...] = (None,)

    def torch_run(
        self, cotangents: RandomCotangents, *, training: bool, part: Part | None, seed: int | None = None
    ) -> Run:
        """Run torch's side, with the gradients of a part if they fit.

        Args:
            cotangents: the cotangents to pull back.
            training: the mode.
            part: the part of the parameters.
            seed: the seed of a control run on perturbed numbers; None for the run itself.
        """
        own = (self.torch, self.inputs)
        side, inputs = own if seed is None else self.torch.moved(self.inputs, seed)
        pulled, names = None if self.unfit else cotangents, None if part is None else part.torch
        return side.run(inputs, pulled, training=training, loss=self.losses[0], part=names)

    def flax_run(self, pulled: Cotangents, *, training: bool, part: Part | None) -> Run:
        """Run Flax's side, with the gradients of a part; arguments as in `torch_run`."""
        paths = None if part is None else part.flax
        return self.flax.run(self.flax_inputs, pulled, training=training, loss=self.losses[1], part=paths)


def compare_mode(models: Models, torch: Run, drawn: RandomCotangents, *, training: bool) -> ModeResult:
    """Run Flax's side like torch's, and compare.

    Args:
        models: the two models.
        torch: torch's run in this mode, with the gradients of the first part.
        drawn: the cotangents pulled back through torch's outputs.
        training: the mode.
    """
    mode = "training" if training else "evaluation"
    seen: dict[str, Any] = {}

    def pulled(outputs: Arrays) -> Arrays:
        seen["outputs"] = match_outputs(torch.outputs, {**outputs}, models.layout)
        return seen["outputs"].cotangents(drawn.drawn)(outputs)

    flax = models.flax_run(pulled, training=training, part=models.parts[0])
    matched = match_outputs(torch.outputs, flax.outputs, models.layout)
    result = ModeResult((torch.calls, flax.calls), (torch.outputs, flax.outputs))
    result.no_gradient = torch.no_gradient or models.unfit
    if are_empty(torch.outputs):
        result.remarks.append(NO_NUMBERS_IN.format(mode))
    result.flax_layers = {call.path: call.layer for call in flax.calls}
    if matched.why:
        result.findings.append(Finding("forward", "the outputs", float("inf"), 0.0, matched.why, mode))
    judge = Judge(_control(models, torch, drawn, models.parts[0], training=training), models.limits)
    for name, array in matched.in_torchs(flax.outputs).items():
        tensor = judge.tensor(OUTPUTS, name, (torch.outputs[name], array))
        shapes = f"torch gives shape {torch.outputs[name].shape}, Flax {array.shape}"
        why = why_of(tensor.difference) if torch.outputs[name].shape == array.shape else shapes
        result.add("forward", mode, name or "the output", tensor, why)
    forward = bool(result.findings)

    apart, most = {}, largest(torch.gradients | torch.let_go)
    if not result.no_gradient:
        apart = _compare_gradients(models, torch, flax, judge, result, mode, most, outputs_match=not matched.why)
        _compare_input_gradients(models, torch, flax, judge, result, mode, outputs_match=not matched.why)
        for other in models.parts[1:]:
            theirs = models.torch_run(drawn, training=training, part=other)
            ours = models.flax_run(pulled, training=training, part=other)
            judge = Judge(_control(models, theirs, drawn, other, training=training), models.limits)
            apart |= _compare_gradients(models, theirs, ours, judge, result, mode, most, outputs_match=not matched.why)

    result.pairing = pairing = LayerPairing(
        models.matched, models.layout, models.limits, apart, most, packs(torch.calls)
    )
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


def _compare_gradients(
    models: Models,
    torch: Run,
    flax: Run,
    judge: Judge,
    result: ModeResult,
    mode: str,
    most: float,
    *,
    outputs_match: bool,
) -> dict[str, float]:
    """Compare the parameter gradients in torch's run; returns the differences by torch's keys.

    If the outputs cannot be matched, the gradients belong to different functions and give no findings. A parameter that
    torch does not train may have no gradient in Flax, where stop_gradient freezes it; the outputs show that it is used.
    """
    own = gathered(models.mapping, torch.gradients, models.torch.guide.tied)
    carried = gradients_in_torchs(models.mapping, flax.gradients)
    paths = {key: ", ".join(entry.targets) for entry in models.mapping.entries for key in entry.sources}
    apart = {}
    plain = {key for entry in models.mapping.entries if entry.collection == "params" for key in entry.sources}
    stopped = [key for key in carried if key in own and key in models.torch.frozen & plain and not carried[key].any()]
    if stopped:
        why = "frozen in torch (requires_grad=False), and without a gradient in Flax (stop_gradient)"
        result.remarks.append(f"gradients in {mode} of {', '.join(stopped)} were not compared: {why}")
    for key in (key for key in carried if key in own and key not in stopped):
        if not outputs_match:
            apart[key] = difference(own[key], carried[key], scale=most * models.limits.share)
            continue
        tensor = judge.tensor(GRADIENTS, key, (own[key], carried[key]), most=most)
        apart[key] = result.add("backward", mode, f"{key} → {paths[key]}", tensor)
    return apart


def _compare_input_gradients(
    models: Models, torch: Run, flax: Run, judge: Judge, result: ModeResult, mode: str, *, outputs_match: bool
) -> None:
    """Compare the gradients of the inputs."""
    if len(torch.input_gradients) != len(flax.input_gradients):
        counts = f"torch has {len(torch.input_gradients)}, Flax {len(flax.input_gradients)}"
        result.remarks.append(f"gradients of the inputs in {mode} were not compared, as they have no twins: {counts}")
    into = largest(torch.input_gradients)
    for name, *pair in _input_gradients(models, torch, flax) if outputs_match else ():
        tensor = judge.tensor(INPUT_GRADIENTS, name, (pair[0], pair[1]), most=into)
        result.add("input gradient", mode, f"input {name}", tensor)


def _alone(
    pairing: LayerPairing, models: Models, row: LayerRow, torch: RecordedCall, flax: RecordedCall, training: bool
) -> LayerRow:
    match = pairing.matched[torch.path]
    forward, backward = pairing.alone(match, torch, flax, (models.torch, models.flax), training=training)
    return replace(row, alone=forward, alone_backward=backward)


def compare_buffers(models: Models, steps: int, result: ModeResult) -> None:
    """Compare the running statistics and other buffers of both sides after some forward passes in training mode.

    Args:
        models: the two models.
        steps: the number of forward passes.
        result: the result to add to.
    """
    entries = [e for e in models.mapping.entries if e.collection not in ("params", TORCH_ONLY)]

    def carried(side: TorchSide, inputs: Inputs) -> Arrays:
        after = side.buffers_after(inputs, steps)
        there = [entry for entry in entries if all(source in after for source in entry.sources)]
        arrays = {entry.targets: entry(tuple(after[source] for source in entry.sources)) for entry in there}
        return {path: array for paths, of in arrays.items() for path, array in zip(paths, of, strict=True)}

    torch, flax = carried(models.torch, models.inputs), models.flax.buffers_after(models.flax_inputs, steps)
    control = Control(lambda seed: {BUFFERS: carried(*models.torch.moved(models.inputs, seed))}, {BUFFERS: torch})
    judge = Judge(control, models.limits)
    names = {path: ", ".join(entry.sources) for entry in entries for path in entry.targets}
    for path, array in torch.items():
        tensor = judge.tensor(BUFFERS, path, (array, flax[path]))
        result.add("buffers", "training", f"{names[path]} → {path}", tensor, f"after {steps} steps")


def _control(models: Models, torch: Run, drawn: RandomCotangents, part: Part | None, *, training: bool) -> Control:
    """How far torch's side strays from itself in this mode, and in the gradients of this part."""

    def run(seed: int) -> Kinds:
        return kinds(models.torch_run(drawn, training=training, part=part, seed=seed))

    def kinds(of: Run) -> Kinds:
        return of.kinds | {GRADIENTS: gathered(models.mapping, of.gradients, models.torch.guide.tied)}

    return Control(run, kinds(torch))


def _input_gradients(models: Models, torch: Run, flax: Run) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """For each input: torch's name, and both gradients in torch's layout."""
    theirs, ours = torch.input_gradients, flax.input_gradients
    if len(theirs) != len(ours):
        return []  # the Flax inputs were passed separately
    inputs, flax_inputs = leaves(models.inputs.tree), leaves(models.flax_inputs.tree)
    found = []
    for (name, array), (path, other) in zip(theirs.items(), ours.items(), strict=True):
        # Flax's model may take torch's layout itself.
        is_in_torchs_layout = np.array_equal(inputs[name], flax_inputs[path])
        first = models.layout.to_first(other) if path in models.layout.moved and not is_in_torchs_layout else other
        if models.layout.moved and first.shape != array.shape and other.ndim == models.layout.rank:
            first = models.layout.to_first(other)
        found.append((name, array, first))
    return found
