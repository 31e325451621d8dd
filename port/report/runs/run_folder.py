"""Read a run's folder as `port train` leaves it: its options and its judged comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from port.errors import BrokenRecord, UsageError
from port.judging import Status, worst
from port.records import compare, read_record
from port.training.judgement import Outcome, judge

SIDES = ("torch", "jax")


@dataclass(frozen=True)
class RunFolder:
    """One run.

    Attributes:
        name: the folder's name, with as many parents as it takes to tell the runs apart.
        path: its folder.
        config: the options of the run.
        comparisons: one for each precision.
    """

    name: str
    path: Path
    config: Mapping[str, Any]
    comparisons: tuple[Outcome, ...]

    @property
    def status(self) -> Status:
        """The worst verdict of its comparisons."""
        return worst(one.verdict.status for one in self.comparisons)


def read_run_folders(paths: Sequence[Path]) -> list[RunFolder]:
    """Read runs; a folder of run folders is replaced by the runs in it, sorted by name.

    Args:
        paths: folders.

    Raises:
        UsageError: a path is not a run's folder and contains none.
        BrokenRecord, BrokenWeights: a file cannot be read; the message names the line of a record.
    """
    folders = list(dict.fromkeys(found.resolve() for path in paths for found in _folders(path)))
    names = _names(folders)
    return [_read(folder, names[folder]) for folder in folders]


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder: name folders of runs, which port train writes to runs/")
    if _records(path):
        return [path]
    within = sorted(one for one in path.iterdir() if one.is_dir() and _records(one))
    if not within:
        raise UsageError(
            f"{path} is not a run's folder and contains none: no folder in it has torch.jsonl and jax.jsonl"
        )
    return within


def _records(folder: Path) -> list[Path]:
    """Return the folders within a run's folder that hold a record of each side, the proof first."""
    found = [one.parent for one in folder.glob("*/torch.jsonl") if (one.parent / "jax.jsonl").is_file()]
    return sorted(found, key=lambda one: (one.name != "float64", one.name))


def _read(folder: Path, name: str) -> RunFolder:
    comparisons = tuple(map(_comparison, _records(folder)))
    config = _json(folder / "config.json") or comparisons[0].torch.about.get("config")
    return RunFolder(name, folder, config if isinstance(config, Mapping) else {}, comparisons)


def _comparison(folder: Path) -> Outcome:
    """Judge one precision of a run; if the run was killed, judge the steps that were recorded."""
    torch, jax = (folder / f"{side}.jsonl" for side in SIDES)
    controls = sorted(folder.glob("control-*.jsonl"))
    weights = folder / "torch.safetensors", folder / "jax.safetensors"
    try:
        return judge(folder.name, torch, jax, controls, weights)
    except BrokenRecord:
        records = [read_record(path, torn=True) for path in (torch, jax, *controls)]
    verdict = compare(records[0], records[1], controls=records[2:])
    return Outcome(folder.name, records[0], records[1], tuple(records[2:]), verdict, weights=None)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):  # the page shows what could be read
        return {}
    return values if isinstance(values, Mapping) else {}


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """Return the last parts of each path, as many as are needed to tell them apart."""
    for count in range(1, max((len(one.parts) for one in folders), default=1) + 1):
        names = {one: "/".join(one.parts[-count:]) for one in folders}
        if len(set(names.values())) == len(folders):
            break
    return names
