"""`port.check_flax`: compare two Flax modules, forward and backward, without torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as Tree
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from port.errors import UnknownChoice, UsageError, WeightsMismatch, described
from port.judging import Compared, Limits, Status
from port.mapping.renaming import Renaming
from port.parity.compare.distance import difference, gap
from port.parity.compare.findings import ORDER, WORDS, Finding, LayerRow, Parting, What
from port.parity.compare.first_divergence import part_backward, part_forward
from port.parity.compare.nudged import Nudged
from port.parity.compare.weight_changes import equal
from port.parity.options import check_inputs, check_steps, limits_of
from port.parity.report import CheckReport
from port.parity.sides.building import Keywords, flax_side
from port.parity.sides.calls import Arrays, is_inexact, largest
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.flax_side import FlaxSide
from port.parity.sides.inputs import Inputs, inputs_from
from port.parity.sides.precision import cpu_precision
from port.parity.sides.run import NO_NUMBERS, NO_NUMBERS_IN, Run, are_empty
from port.weights.sources import is_torch


def check_flax(
    first: Any,
    second: Any,
    inputs: Any,
    *,
    second_inputs: Any = None,
    keywords: tuple[Keywords | None, Keywords | None] = (None, None),
    rename: Tree[str, str] | None = None,
    weights: Literal["own", "first"] = "own",
    precision: Literal["float64", "float32"] = "float64",
    rtol: float | None = None,
    atol: float = 0.0,
    steps: int = 3,
) -> CheckReport:
    """Compare two Flax modules, and find where they differ. Needs no torch.

    The check compares the weights (bit for bit, path by path); the outputs in evaluation and in training mode; the
    gradients of every parameter and floating input, for random cotangents; and the running statistics after some steps.
    Copies of both run in float64 on the CPU, with dropout off; the modules passed in are not changed. The first module
    also runs with its numbers moved in their last places: a tensor whose difference is no larger than what that causes
    cannot be judged.

    Args:
        first: the reference: an nnx module, or (Linen module, variables).
        second: the other module, likewise.
        inputs: the inputs of both: one array, a tuple of positional arguments, or a dict of keyword arguments.
        second_inputs: the second module's inputs, if they differ.
        keywords: keywords of both calls, in evaluation and in training, as for `port.check`; by default the usual ones.
        rename: pattern → replacement, from the first module's paths to the second's, where they differ.
        weights: "own": each keeps its weights, which are compared first; "first": the second's copy gets the first's.
        precision: float64 is the proof; float32 does not show faults below 1e-4.
        rtol: relative limit of outputs; that of gradients is ten times as large. Defaults as for `port.check`.
        atol: absolute differences below this count as equal.
        steps: forward passes in training mode before the running statistics are compared.

    Returns:
        A report that is true if the two agree, and prints its verdict.

    Raises:
        UsageError: a module does not take its inputs, or is not a Flax module; or an option is invalid.
        WeightsMismatch: paths that only one of the two has, or different shapes; one message lists all of them.
    """
    if weights not in ("own", "first"):
        raise UnknownChoice("weights", weights, ("own", "first"))
    limits = limits_of(precision, rtol, atol)
    check_steps(steps)
    for module in (first, second):
        if is_torch(module):
            raise UsageError(
                f"port.check_flax compares two Flax modules, and got {described(module)}: port.check takes torch's"
            )
    with cpu_precision(precision == "float64"):
        converted = inputs_from(inputs, precision)
        check_inputs(converted)
        other = converted if second_inputs is None else inputs_from(second_inputs, precision)
        sides = flax_side(first, precision, converted, keywords[0]), flax_side(second, precision, other, keywords[1])
        comparison = _Comparison(sides, (converted, other), _paths(*sides, Renaming(rename)), limits, steps)
        if weights == "own":
            comparison.compare_weights()
        else:
            sides[1].variables |= {path: sides[0].variables[own] for own, path in comparison.paths.items()}
        comparison.run()
        return comparison.report(precision)


def _paths(first: FlaxSide, second: FlaxSide, renaming: Renaming) -> dict[str, str]:
    """Return the first module's path of each variable → the second's.

    Raises:
        WeightsMismatch: variables without a twin, and twins of different shapes; one message lists all.
    """
    paths = {path: renaming(path) for path in first.variables}
    wrong = [f"only the first has {path}" for path, twin in paths.items() if twin not in second.variables]
    wrong += [f"only the second has {path}" for path in second.variables if path not in set(paths.values())]
    for path, twin in paths.items():
        shapes = first.variables[path].shape, getattr(second.variables.get(twin), "shape", None)
        if shapes[1] is not None and shapes[0] != shapes[1]:
            wrong.append(f"{path} has shape {shapes[0]}, but {twin} has {shapes[1]}")
    counts = Counter(paths.values())
    wrong += [f"{path} and others are renamed to {twin}" for path, twin in paths.items() if counts[twin] > 1]
    if wrong:
        raise WeightsMismatch("\n".join(["the two Flax modules' variables cannot be matched:", *wrong]))
    return paths


@dataclass
class _Comparison:
    """The runs of two sides, compared as they proceed.

    Attributes:
        sides: the first and the second.
        inputs: the inputs of both.
        paths: the first module's path of each variable → the second's.
        limits: the limits of a difference.
        steps: forward passes before the running statistics are compared.
        is_empty: of each compared mode, whether no output holds a number.
    """

    sides: tuple[FlaxSide, FlaxSide]
    inputs: tuple[Inputs, Inputs]
    paths: dict[str, str]
    limits: Limits
    steps: int
    findings: list[Finding] = field(default_factory=list)
    partings: list[Parting] = field(default_factory=list)
    layers: dict[str, tuple[LayerRow, ...]] = field(default_factory=dict)
    rows: list[Compared] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    is_empty: list[bool] = field(default_factory=list)

    def compare_weights(self) -> None:
        """Compare each side's weights, bit for bit."""
        first, second = (side.weights for side in self.sides)
        pairs = {own: (np.asarray(first[own]), np.asarray(second[path])) for own, path in self.paths.items()}
        apart = {own: difference(*pair) for own, pair in pairs.items() if not equal(*pair)}
        self.findings += [Finding("weights", self._named(own), by, 0.0) for own, by in apart.items()]
        worst = max(apart, key=lambda own: apart[own], default="")
        self.rows.append(Compared("weights", apart.get(worst, 0.0), 0.0, worst and self._named(worst), len(pairs)))

    def run(self) -> None:
        """Compare both modes; leave training out if a module draws random numbers outside dropout layers."""
        self._mode(training=False)
        if any(side.is_random(inputs) for side, inputs in zip(self.sides, self.inputs, strict=True)):
            self.remarks.append("training was not compared: a module draws random numbers outside its dropout layers")
            return
        self._mode(training=True)
        buffers = {own: path for own, path in self.paths.items() if not self._is_parameter(own)}
        after = [side.buffers_after(inputs, self.steps) for side, inputs in zip(self.sides, self.inputs, strict=True)]
        pairs = {own: (after[0][own], after[1][path]) for own, path in buffers.items()}
        nudged = Nudged(*self._first, lambda side, inputs: side.buffers_after(inputs, self.steps))
        self._judge("buffers", "training", pairs, nudged)
        silenced = dict.fromkeys(name for side in self.sides for name in side.silenced)
        if silenced:
            self.remarks.append(f"dropout was off in {', '.join(silenced)}")

    def report(self, precision: str) -> CheckReport:
        """Return the findings as a report."""
        unjudged = tuple(row.unjudged for row in self.rows if row.unjudged)
        if self.is_empty and all(self.is_empty):
            unjudged = (NO_NUMBERS, *unjudged)
        status = Status.DIFFER if self.findings else Status.CANNOT_JUDGE if unjudged else Status.AGREE
        found = sorted(self.findings, key=lambda finding: (ORDER.index(finding.what), finding.mode))
        partings = sorted(self.partings, key=lambda parting: (parting.direction != "forward", parting.mode))
        said = (tuple(found), tuple(partings), self.layers)
        remarks, rows = tuple(self.remarks), tuple(self.rows)
        return CheckReport(status, *said, remarks=remarks, rows=rows, precision=precision, unjudged=unjudged)

    @property
    def _first(self) -> tuple[FlaxSide, Inputs]:
        return self.sides[0], self.inputs[0]

    def _mode(self, *, training: bool) -> None:
        mode, drawn = "training" if training else "evaluation", RandomCotangents()
        first = self.sides[0].run(self.inputs[0], drawn, training=training)
        names: dict[str, str] = {}

        def pulled(outputs: Arrays) -> Arrays:
            names.update(_twins(first.outputs, outputs))
            fits = {b: drawn.drawn[a] for a, b in names.items() if a in drawn.drawn and is_inexact(outputs[b])}
            return {b: array.astype(outputs[b].dtype) for b, array in fits.items() if array.shape == outputs[b].shape}

        second = self.sides[1].run(self.inputs[1], pulled, training=training)
        self.is_empty.append(are_empty(first.outputs))
        if self.is_empty[-1]:
            self.remarks.append(NO_NUMBERS_IN.format(mode))
        before = len(self.findings)
        if not names and first.outputs:
            why = f"the first gives {len(first.outputs)} outputs, the second {len(second.outputs)}"
            self.findings.append(Finding("forward", "the outputs", float("inf"), 0.0, why, mode))
        outputs = {a: (first.outputs[a], second.outputs[b]) for a, b in names.items()}
        self._judge("forward", mode, outputs, self._nudged("outputs", drawn, training))
        is_forward = len(self.findings) > before
        gradients = {
            own: (first.gradients[own], second.gradients[path])
            for own, path in self.paths.items()
            if own in first.gradients and path in second.gradients
        }
        self._judge("backward", mode, gradients, self._nudged("gradients", drawn, training))
        twins = _twins(first.input_gradients, second.input_gradients)
        into = {a: (first.input_gradients[a], second.input_gradients[b]) for a, b in twins.items()}
        self._judge("input gradient", mode, into, self._nudged("input_gradients", drawn, training))
        rows = self._layers(first, second)
        self.layers[mode] = tuple(rows)
        if len(self.findings) > before:
            self.partings.append((part_forward if is_forward else part_backward)(rows, mode, self.limits))

    def _nudged(self, kind: str, drawn: RandomCotangents, training: bool) -> Nudged:
        def run(side: FlaxSide, inputs: Inputs) -> Arrays:
            again: Arrays = getattr(side.run(inputs, drawn, training=training), kind)
            return again

        return Nudged(*self._first, run)

    def _judge(self, what: What, mode: str, pairs: Tree[str, tuple[np.ndarray, np.ndarray]], nudged: Nudged) -> None:
        """Compare tensors of one kind: a finding for each that differs, and a row for all."""
        is_gradient = what in ("backward", "input gradient")
        limit = self.limits.gradient if is_gradient else self.limits.forward
        scale = self.limits.share * largest({name: pair[0] for name, pair in pairs.items()}) if is_gradient else 0.0
        worst, where, unjudged = 0.0, "", ""
        for name, pair in pairs.items():
            named = self._named(name) if name in self.paths else (name or "the output")
            apart = difference(*pair, scale=scale)
            if apart <= limit or gap(*pair) <= self.limits.absolute:
                apart = min(apart, limit)
            elif nudged.strays_as_far(name, gap(*pair)):
                unjudged = unjudged or f"{what}, {mode}: {named} differs by {apart:.1e}, no more than rounding alone"
                continue
            else:
                self.findings.append(Finding(what, named, apart, limit, mode=mode))
            if apart > worst:
                worst, where = apart, named
        if pairs:
            when = f"after {self.steps} steps of training" if what == "buffers" else f"in {mode}"
            row = Compared(f"{WORDS[what]} {when}", worst, limit, where, len(pairs), unjudged=unjudged)
            self.rows.append(row)

    def _layers(self, first: Run, second: Run) -> list[LayerRow]:
        """Compare every layer call that both make under one path, in the first's order."""
        twins = {call.key: call for call in second.calls}
        inverse = {own.rpartition(".")[0]: path.rpartition(".")[0] for own, path in self.paths.items()}
        rows = []
        for call in first.calls:
            twin = twins.get(f"{inverse.get(call.path, call.path)}#{call.number}")
            if twin is not None:
                kinds = _kind(call.layer), _kind(twin.layer)
                entering, leaving = _apart(call.inputs, twin.inputs), _apart(call.outputs, twin.outputs)
                arriving = _apart(call.cotangents, twin.cotangents)
                rows.append(LayerRow(str(call), str(twin), kinds[0], kinds[1], entering, leaving, arriving=arriving))
        return rows

    def _is_parameter(self, path: str) -> bool:
        return self.sides[0].guide.leaves[path].collection == "params"

    def _named(self, own: str) -> str:
        return f"{own} → {self.paths[own]}"


def _twins(first: Tree[str, Any], second: Tree[str, Any]) -> dict[str, str]:
    """Return names of the first → the second's: equal names, or in order; none if their numbers differ."""
    if set(first) == set(second):
        return {name: name for name in first}
    return dict(zip(first, second, strict=True)) if len(first) == len(second) else {}


def _apart(first: Arrays, second: Arrays) -> float | None:
    pairs = zip(first.values(), second.values(), strict=False)
    return max((difference(*pair) for pair in pairs), default=None) if len(first) == len(second) else None


def _kind(layer: Any) -> str:
    return f"{type(layer).__module__}.{type(layer).__qualname__}"
