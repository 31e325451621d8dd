"""A run's folder as `port train` leaves it: its options, its verdict, its records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.judging import Status, worst
from port.records import Record, Verdict, compare, read_record

SIDES = ("torch", "jax")


@dataclass(frozen=True)
class RunComparison:
    """Both sides of a run in one precision.

    Attributes:
        name: "float64", "float32" or "scripts".
        torch: PyTorch's record.
        jax: JAX's record.
        controls: PyTorch's other runs, from initial weights moved in their last places.
        verdict: what comparing both says.
        weights: the final tensor that differs most, and by how much; None where the folder does not say.
    """

    name: str
    torch: Record
    jax: Record
    controls: tuple[Record, ...]
    verdict: Verdict
    weights: tuple[str, float] | None


@dataclass(frozen=True)
class RunFolder:
    """One run.

    Attributes:
        name: its folder's, or as much of its path as tells it from the others.
        path: its folder.
        config: the options that it ran with.
        comparisons: one for each precision.
    """

    name: str
    path: Path
    config: Mapping[str, Any]
    comparisons: tuple[RunComparison, ...]

    @property
    def status(self) -> Status:
        """The worst verdict of its comparisons."""
        return worst(one.verdict.status for one in self.comparisons)


def read_run_folders(paths: Sequence[Path]) -> list[RunFolder]:
    """Read runs; a folder that holds run folders stands for all of them, in the order of their names.

    Args:
        paths: folders.

    Raises:
        UsageError: a path that is no run's folder and holds none, or no record in it.
        BrokenRecord: a record that cannot be read; names the line.
    """
    folders = list(dict.fromkeys(found.resolve() for path in paths for found in _folders(path)))
    names = _names(folders)
    return [_read(folder, names[folder]) for folder in folders]


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UsageError(f"{path} is no folder: name the folders of runs, as port train leaves them in runs/")
    if _records(path):
        return [path]
    within = sorted(one for one in path.iterdir() if one.is_dir() and _records(one))
    if not within:
        raise UsageError(f"{path} is no run's folder, and holds none: no folder in it has torch.jsonl and jax.jsonl")
    return within


def _records(folder: Path) -> list[Path]:
    """The folders within a run's folder that hold a record of each side; the proof first."""
    found = [one.parent for one in folder.glob("*/torch.jsonl") if (one.parent / "jax.jsonl").is_file()]
    return sorted(found, key=lambda one: (one.name != "float64", one.name))


def _read(folder: Path, name: str) -> RunFolder:
    verdicts = _json(folder / "verdict.json")
    comparisons = tuple(_comparison(one, verdicts.get(one.name)) for one in _records(folder))
    config = _json(folder / "config.json") or comparisons[0].torch.about.get("config")
    return RunFolder(name, folder, config if isinstance(config, Mapping) else {}, comparisons)


def _comparison(folder: Path, told: Any) -> RunComparison:
    torch, jax = (read_record(folder / f"{side}.jsonl", torn=True) for side in SIDES)
    controls = tuple(read_record(path, torn=True) for path in sorted(folder.glob("control-*.jsonl")))
    weights = told.get("weights_difference") if isinstance(told, Mapping) else None
    furthest = (str(weights[0]), float(weights[1])) if isinstance(weights, list) and len(weights) == 2 else None
    return RunComparison(folder.name, torch, jax, controls, compare(torch, jax, controls=controls), furthest)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):  # the page shows what there is
        return {}
    return values if isinstance(values, Mapping) else {}


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """The last parts of each path, as many as tell all of them apart."""
    for count in range(1, max((len(one.parts) for one in folders), default=1) + 1):
        names = {one: "/".join(one.parts[-count:]) for one in folders}
        if len(set(names.values())) == len(folders):
            break
    return names
