"""A whole run: both trainers, their controls, and the verdict on each comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from port.errors import BrokenRecord
from port.judging import Status, worst
from port.records import compare, read_record
from port.records.comparison import parts_late
from port.training.folder import environment, write_json
from port.training.jobs import Job
from port.training.judgement import Outcome, judge
from port.training.plan import CONTROLS, Pairing, plan_controls, plan_jobs, record_of, weights_of
from port.training.processes import run_jobs
from port.training.progress import Progress


def train(
    pairings: Sequence[Pairing],
    folder: Path,
    *,
    config: Mapping[str, Any],
    resume: bool = False,
    watch: Callable[[list[Progress]], object] = lambda rows: None,
) -> list[Outcome]:
    """Run every pairing and judge it; all output is in ``folder``.

    Args:
        pairings: the comparisons, the proof first.
        folder: made by `make_run_folder`.
        config: the run's options, kept in ``config.json``.
        resume: skip processes that finished in an earlier run in this folder.
        watch: called with the progress of all processes while they run.

    Returns:
        One outcome per pairing, in order.

    Raises:
        TrainerDied: a trainer exited before it finished; the others have been ended, the records so far are kept.
        BrokenRecord: a trainer left no readable record.
    """
    write_json(folder / "config.json", config)
    write_json(folder / "environment.json", environment())
    slots = min(2, os.cpu_count() or 1)
    jobs = [job for job in plan_jobs(pairings, folder, slots) if not (resume and _is_done(job))]
    run_jobs(jobs, slots=slots, watch=watch)
    outcomes = []
    for pairing in pairings:
        controls = pairing.controls
        if controls is None:
            controls = CONTROLS if _needs_controls(pairing, folder) else 0
            if controls:
                run_jobs(plan_controls(pairing, folder, controls, slots), slots=slots, watch=watch)
        outcomes.append(_judge(pairing, folder, controls))
    write_verdict(outcomes, folder)
    return outcomes


def write_verdict(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write the result of every comparison to ``verdict.json`` in the run folder."""
    write_json(folder / "verdict.json", {outcome.name: as_dict(outcome) for outcome in outcomes})


def status_of(outcomes: Sequence[Outcome]) -> Status:
    """The combined status of all comparisons of a run."""
    return worst(outcome.verdict.status for outcome in outcomes)


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON-ready data; the differences step by step can be recomputed from the records."""
    verdict = outcome.verdict
    return {
        "status": str(verdict.status),
        "sentence": verdict.sentence,
        "precision": verdict.precision,
        "largest_difference": verdict.steps.largest(),
        "largest_evaluation_difference": verdict.evaluations.largest(),
        "weights_difference": None if outcome.weights is None else [outcome.weights.where, outcome.weights.difference],
        "findings": verdict.as_dict()["findings"],
        "hints": verdict.hints,
        "causes": [asdict(cause) for cause in outcome.causes],
    }


def _is_done(job: Job) -> bool:
    try:
        return read_record(job.record).finished and job.weights is not None and job.weights.exists()
    except BrokenRecord:  # cut off, or not begun
        return False


def _needs_controls(pairing: Pairing, folder: Path) -> bool:
    """Whether a comparison of the user's own scripts, which ran from shared weights, needs controls.

    float32 always does. float64 does if the losses part only after the early steps: training may amplify its rounding,
    too.
    """
    if not (folder / "initial.safetensors").exists():
        return False
    torch, jax = (read_record(record_of(folder, pairing, side)) for side in ("torch", "jax"))
    if {torch.precision, jax.precision} != {"float64"}:
        return True
    return parts_late(compare(torch, jax))


def _judge(pairing: Pairing, folder: Path, controls: int) -> Outcome:
    return judge(
        pairing.name,
        record_of(folder, pairing, "torch"),
        record_of(folder, pairing, "jax"),
        [record_of(folder, pairing, f"control-{number}") for number in range(1, controls + 1)],
        (weights_of(folder, pairing, "torch"), weights_of(folder, pairing, "jax")),
    )
