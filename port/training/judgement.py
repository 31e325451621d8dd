"""Judges one comparison of a run: its records, and its final weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from port.judging import Compared, Status
from port.judging.limits import WEIGHTS_LIMIT
from port.records import Record, RecordFinding, Verdict, compare, read_record
from port.weights import largest_difference, read_arrays


@dataclass(frozen=True)
class Outcome:
    """The outcome of one comparison of a run.

    Attributes:
        name: "float64", "float32" or "scripts".
        torch: PyTorch's record.
        jax: JAX's record.
        controls: the controls' records.
        verdict: the result of comparing them, including the final weights.
        weights: the final tensor that differs most; None if a side saved no weights. Below float64 it has no limit.
        causes: `port.parity.diagnose.causes.Cause`s found in the two models alone, if they were checked.
    """

    name: str
    torch: Record
    jax: Record
    controls: tuple[Record, ...]
    verdict: Verdict
    weights: Compared | None
    causes: tuple[Any, ...] = ()

    @property
    def rows(self) -> tuple[Compared, ...]:
        """The rows of the comparison: the losses, and the final weights."""
        return self.verdict.rows if self.weights is None else (*self.verdict.rows, self.weights)


def judge(
    name: str,
    torch: Path,
    jax: Path,
    controls: Sequence[Path] = (),
    final_weights: tuple[Path, Path] | None = None,
) -> Outcome:
    """Compare two records, and the final weights next to them.

    Final weights and running statistics are part of the proof: in float64 they may differ by
    `port.judging.limits.WEIGHTS_LIMIT`. In a lower precision, and if the last losses cannot be judged, their
    difference is reported and not judged.

    Raises:
        BrokenRecord, BrokenWeights: a file cannot be read.
    """
    record_a, record_b = read_record(torch), read_record(jax)
    control_records = tuple(read_record(control) for control in controls)
    verdict = compare(record_a, record_b, controls=control_records)
    weights = None
    if final_weights is not None and all(path.exists() for path in final_weights):
        a, b = (read_arrays(path) for path in final_weights)
        is_proof = verdict.precision == "float64" and verdict.judged_until is None
        limit = WEIGHTS_LIMIT if is_proof else math.nan
        tensor, difference = largest_difference(a, b)
        weights = Compared("final weights", difference, limit, tensor, len({*a, *b}))
        if weights.status is Status.DIFFER:
            verdict = _with_weights_finding(verdict, weights)
    return Outcome(name, record_a, record_b, control_records, verdict, weights)


def _with_weights_finding(verdict: Verdict, weights: Compared) -> Verdict:
    why = f"the final weights differ most in {weights.where}: {weights.difference:.2e}, allowed {weights.limit:.0e}"
    finding = RecordFinding("weights", None, weights.difference, weights.limit, why)
    if verdict.findings:  # the losses parted earlier: that is reported first
        return replace(verdict, findings=[*verdict.findings, finding])
    sentence = f"torch and jax differ: the losses agree at every step, but {why}."
    return replace(verdict, status=Status.DIFFER, findings=[finding], sentence=sentence)
