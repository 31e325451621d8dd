"""Plans the processes of a comparison: both trainers, in each precision, and the controls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from port.training.jobs import Job

CONTROLS = 3
"""How many controls are run beside a comparison that needs them."""


@dataclass(frozen=True)
class Trainer:
    """How one side is started: command, environment variables, working directory (None: the current one)."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None


@dataclass(frozen=True)
class Pairing:
    """The two trainers of one comparison.

    Attributes:
        name: the comparison's folder within the run folder: "float64", "float32", or "scripts".
        torch: the PyTorch trainer.
        jax: the JAX trainer.
        controls: how many controls to run; None runs them if the records turn out to need them.
        timed: its speed is reported, so each of the two runs alone.
        time_limit: seconds allowed between two lines of a trainer's record; None for no limit.
    """

    name: str
    torch: Trainer
    jax: Trainer
    controls: int | None = 0
    timed: bool = False
    time_limit: float | None = None


def plan_jobs(pairings: Sequence[Pairing], folder: Path, slots: int) -> list[Job]:
    """List all processes of a run, in the order in which they start: untimed ones first, ``slots`` at a time."""
    first = [job for pairing in pairings if not pairing.timed for job in _both(pairing, folder, slots)]
    controls = [job for pairing in pairings for job in plan_controls(pairing, folder, pairing.controls or 0, slots)]
    timed = [job for pairing in pairings if pairing.timed for job in _both(pairing, folder, slots)]
    return first + controls + timed


def plan_controls(pairing: Pairing, folder: Path, count: int, slots: int) -> list[Job]:
    """List the controls of a comparison: its PyTorch trainer again, each with its number."""
    threads = _share_of_threads(slots)
    return [
        _job(pairing, pairing.torch, folder, f"control-{number}", {**threads, "PORT_CONTROL": str(number)})
        for number in range(1, count + 1)
    ]


def record_of(folder: Path, pairing: Pairing, name: str) -> Path:
    """The record's path for a process of a pairing: name is "torch", "jax" or "control-1" and on."""
    return folder / pairing.name / f"{name}.jsonl"


def weights_of(folder: Path, pairing: Pairing, name: str) -> Path:
    """The path of the final weights of a process of a pairing."""
    return folder / pairing.name / f"{name}.safetensors"


def _both(pairing: Pairing, folder: Path, slots: int) -> list[Job]:
    threads = {} if pairing.timed else _share_of_threads(slots)
    return [
        _job(pairing, pairing.torch, folder, "torch", threads, alone=pairing.timed),
        _job(pairing, pairing.jax, folder, "jax", threads, alone=pairing.timed),
    ]


def _share_of_threads(slots: int) -> dict[str, str]:
    """Divide the cores: two processes that each use every core wait for each other (measured: 100 times slower)."""
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // slots))}


def _job(
    pairing: Pairing,
    trainer: Trainer,
    folder: Path,
    name: str,
    variables: dict[str, str],
    *,
    alone: bool = False,
) -> Job:
    record = record_of(folder, pairing, name).resolve()
    weights = weights_of(folder, pairing, name).resolve()
    return Job(
        name=f"{name} {pairing.name}",
        command=trainer.command,
        folder=trainer.folder,
        environment={
            "PORT_RECORD": str(record),
            "PORT_SIDE": name,
            "PORT_INITIAL_WEIGHTS": str((folder / "initial.safetensors").resolve()),
            "PORT_FINAL_WEIGHTS": str(weights),
            # On a GPU that both share, JAX allocates as needed instead of three quarters at once.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **variables,
            **trainer.environment,
        },
        record=record,
        weights=weights,
        log=record.with_suffix(".log"),
        alone=alone,
        time_limit=pairing.time_limit,
    )
