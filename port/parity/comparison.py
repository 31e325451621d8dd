"""Compare two modules mode by mode, and report the results so far however the comparison ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from port.judging import Compared, Status
from port.parity.compare.findings import ORDER, Finding
from port.parity.compare.mode import Models, compare_buffers, compare_mode
from port.parity.compare.mode_result import ModeResult
from port.parity.diagnose.causes.finding import causes_of
from port.parity.diagnose.remarks import all_hints, remarks_of
from port.parity.diagnose.rounding import part_beyond_rounding
from port.parity.report import CheckReport
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.fitting import SMALLER, did_not_fit
from port.parity.sides.run import NO_NUMBERS, Run, are_empty


@dataclass
class Comparison:
    """A comparison in progress.

    Attributes:
        models: the two models.
        drawn: the cotangents for both sides.
        findings: what was found before either ran.
        steps: forward passes in training mode before the running statistics are compared.
        remarks: further remarks.
        results: the result of each compared mode.
        random: which models draw random numbers in training mode although their dropout is off: torch's, Flax's.
        ended: why it ended early; empty if it did not.
    """

    models: Models
    drawn: RandomCotangents
    findings: list[Finding]
    steps: int
    remarks: list[str]
    results: dict[str, ModeResult] = field(default_factory=dict)
    random: tuple[str, ...] = ()
    ended: str = ""

    def run(self, evaluated: Run) -> None:
        """Compare evaluation, training, and the buffers after some steps, as far as memory and the user allow.

        Args:
            evaluated: torch's run in evaluation mode.
        """
        try:
            self._modes(evaluated)
        except KeyboardInterrupt:
            # Keep the results so far; a second interrupt ends the command.
            self.ended = "it was interrupted before everything was compared: run it again"
        except Exception as error:
            if not did_not_fit(error):
                raise
            self.ended = UNFIT

    def _modes(self, evaluated: Run) -> None:
        models = self.models
        self.results["evaluation"] = compare_mode(models, evaluated, self.drawn, training=False)
        drawing = {
            "torch's": models.torch.is_random(models.inputs),
            "Flax's": models.flax.is_random(models.flax_inputs),
        }
        self.random = tuple(whose for whose, is_random in drawing.items() if is_random)
        if not self.random:
            trained = models.torch_run(self.drawn, training=True, part=models.parts[0])
            self.results["training"] = compare_mode(models, trained, self.drawn, training=True)
            compare_buffers(models, self.steps, self.results["training"])
        for mode, result in self.results.items():
            part_beyond_rounding(models, result, training=mode == "training")

    def report(self, *, weights_compared: bool) -> CheckReport:
        """Report the findings.

        Args:
            weights_compared: whether each side kept its own weights.
        """
        models, results = self.models, self.results
        found = [*self.findings, *(finding for result in results.values() for finding in result.findings)]
        found.sort(key=lambda finding: (ORDER.index(finding.what), finding.mode))
        partings = [parting for result in results.values() for parting in result.partings]
        partings.sort(key=lambda parting: (parting.direction != "forward", parting.mode))
        rows = [self._weights()] if weights_compared else []
        for mode, result in results.items():
            rows += result.compared(mode, models.limits, self.steps)
        is_empty = bool(results) and all(are_empty(result.outputs[0]) for result in results.values())
        why = [
            models.unfit,
            self.ended,
            NO_NUMBERS if is_empty else "",
            *(why for result in results.values() for why in result.unjudged),
        ]
        unjudged = tuple(dict.fromkeys(filter(None, why)))
        causes = causes_of(models, results, found, self.steps) if found else ()
        return CheckReport(
            Status.DIFFER if found else Status.CANNOT_JUDGE if unjudged else Status.AGREE,
            tuple(found),
            tuple(partings),
            {mode: tuple(result.rows) for mode, result in results.items()},
            tuple(all_hints(models, results, found, partings, causes)),
            (*remarks_of(models, results, random=self.random), *self.remarks),
            tuple(rows),
            models.torch.precision,
            unjudged,
            causes,
        )

    def _weights(self) -> Compared:
        """The row for the weights, which were compared before either side ran."""
        found = [finding for finding in self.findings if finding.what == "weights"]
        worst = max(found, key=lambda finding: finding.difference, default=None)
        difference, where = (0.0, "") if worst is None else (worst.difference, worst.where)
        return Compared("weights", difference, 0.0, where, len(self.models.mapping.entries))


UNFIT = f"the comparison did not fit into memory: use {SMALLER}, or check a part alone"
