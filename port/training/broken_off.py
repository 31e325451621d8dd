"""The remains of a run that broke off: its records as far as they go, and what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from port.errors import BrokenRecord, BrokenWeights
from port.records import Record, Verdict, compare, read_record
from port.training.judgement import Outcome, judge
from port.training.plan import Pairing, record_of, weights_of


@dataclass(frozen=True)
class Remains:
    """One comparison of a run that broke off.

    Attributes:
        name: "float64", "float32" or "scripts".
        torch: PyTorch's record as far as it goes; None if there is none that can be read.
        jax: JAX's, likewise.
        controls: the controls that go as far as both sides do.
        verdict: on the steps that both sides have; None if there are none.
        missing: the reason, for each side without a record.
    """

    name: str
    torch: Record | None
    jax: Record | None
    controls: tuple[Record, ...]
    verdict: Verdict | None
    missing: dict[str, str]


def remains(pairings: Sequence[Pairing], folder: Path) -> list[Outcome | Remains]:
    """Collect what a run that broke off left, comparison by comparison; finished ones are judged as usual."""
    found = [_remains(pairing, folder) for pairing in pairings]
    return [one for one in found if one is not None]


def _remains(pairing: Pairing, folder: Path) -> Outcome | Remains | None:
    of_torch, of_jax = (record_of(folder, pairing, side) for side in ("torch", "jax"))
    numbers = range(1, (pairing.controls or 0) + 1)
    controls = [record_of(folder, pairing, f"control-{number}") for number in numbers]
    try:
        if all(read_record(path).finished for path in (of_torch, of_jax, *controls)):
            weights = weights_of(folder, pairing, "torch"), weights_of(folder, pairing, "jax")
            return judge(pairing.name, of_torch, of_jax, controls, weights)
    except (BrokenRecord, BrokenWeights):
        pass  # one of them broke off; its remains follow below
    missing: dict[str, str] = {}
    torch, jax = _read(of_torch, missing, "torch"), _read(of_jax, missing, "jax")
    if torch is None and jax is None:
        return None
    read = [_read(path, {}, "") for path in controls]
    if torch is None or jax is None or not set(torch.steps) & set(jax.steps):
        return Remains(pairing.name, torch, jax, (), None, missing)
    torch_part, jax_part = _as_far_as_both(torch, jax)
    far = tuple(control for control in read if control is not None and _covers(control, torch_part))
    return Remains(pairing.name, torch, jax, far, compare(torch_part, jax_part, controls=far), missing)


def _read(path: Path, missing: dict[str, str], side: str) -> Record | None:
    try:
        return read_record(path, torn=True)
    except BrokenRecord as error:
        missing[side] = str(error) if path.exists() else f"there is no file {path.name}: it recorded nothing"
        return None


def _as_far_as_both(a: Record, b: Record) -> tuple[Record, Record]:
    """Both records without what only one of them has; marked as finished, as the break is reported elsewhere."""
    steps, evaluations = set(a.steps) & set(b.steps), set(a.evaluations) & set(b.evaluations)

    def cut(record: Record) -> Record:
        return replace(
            record,
            steps={step: line for step, line in record.steps.items() if step in steps},
            evaluations={step: line for step, line in record.evaluations.items() if step in evaluations},
            finished=True,
        )

    return cut(a), cut(b)


def _covers(control: Record, of: Record) -> bool:
    as_long = set(of.steps) <= set(control.steps) and set(of.evaluations) <= set(control.evaluations)
    return as_long and control.precision in (None, of.precision)
