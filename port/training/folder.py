"""The run folder: created once, never overwritten unless asked."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from port.errors import FolderExists, UsageError

PACKAGES = ("port", "torch", "torchvision", "jax", "jaxlib", "flax", "optax", "numpy", "grain", "safetensors")
MARK = "config.json"  # a folder that holds this is a run folder


def make_run_folder(out: Path | None, *, name: str, overwrite: bool = False) -> Path:
    """Make a run's folder.

    Args:
        out: the folder; None creates a new one, ``runs/<name>-<date>-<time>``.
        name: the run's name.
        overwrite: empty an existing run folder. A folder that is not a run folder is never emptied.

    Raises:
        FolderExists: ``out`` exists.
        UsageError: the folder cannot be created.
    """
    if out is None:
        out = _unused(Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        if not overwrite:
            raise FolderExists(
                f"there is something at {out} already; name another folder with --out, or add --overwrite"
            )
        if not (out / MARK).is_file():
            raise FolderExists(f"{out} is not a run folder (it has no {MARK}), so it is not emptied; name another")
        shutil.rmtree(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the run folder {out} cannot be created: {error.strerror}") from error
    return out


def options_of_run(out: Path) -> dict[str, Any]:
    """Read the options of the run in this folder, to resume it.

    Raises:
        UsageError: it is not a run folder.
    """
    try:
        options = json.loads((out / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{out} has no run to resume: its {MARK} cannot be read ({error})") from error
    if not isinstance(options, dict):
        raise UsageError(f"{out} has no run to resume: its {MARK} has no options")
    if "scripts" in options:
        raise UsageError(f"{out} is a run of your own scripts: only runs of port's trainers can be resumed from here")
    return options


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    contents = json.dumps(_finite(values), indent=2, default=str, allow_nan=False)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(contents + "\n", encoding="utf-8")
    os.replace(temporary, path)


def environment() -> dict[str, Any]:
    """Describe what a run depends on, beside its config: Python, the system, the packages' versions."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "packages": versions,
    }


def _finite(value: Any) -> Any:
    """Replace the floats that JSON cannot express by strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _unused(path: Path) -> Path:
    candidate, number = path, 2
    while candidate.exists():
        candidate = path.with_name(f"{path.name}-{number}")
        number += 1
    return candidate
