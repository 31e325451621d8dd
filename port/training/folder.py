"""The run folder: made once, never written over unasked."""

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
        out: the folder; None makes a new one, ``runs/<name>-<date>-<time>``.
        name: what the run is called.
        overwrite: empty a run folder that is there. A folder that is no run's is never emptied.

    Raises:
        FolderExists: there is something at ``out`` already.
        UsageError: it cannot be made there.
    """
    if out is None:
        out = _unused(Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        if not overwrite:
            raise FolderExists(
                f"there is something at {out} already; name another folder with --out, or add --overwrite"
            )
        if not (out / MARK).is_file():
            raise FolderExists(f"{out} is no run's folder (it holds no {MARK}), so it is not emptied; name another")
        shutil.rmtree(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the run's folder {out} cannot be made: {error.strerror}") from error
    return out


def told_before(out: Path) -> dict[str, Any]:
    """What the run in this folder was told, to go on with it.

    Raises:
        UsageError: it is no run's folder.
    """
    try:
        told = json.loads((out / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{out} holds no run to go on with: its {MARK} cannot be read ({error})") from error
    if not isinstance(told, dict):
        raise UsageError(f"{out} holds no run to go on with: its {MARK} holds no options")
    if "scripts" in told:
        raise UsageError(f"{out} holds a run of scripts of your own: only our trainers' runs can be resumed from here")
    return told


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    contents = json.dumps(_finite(values), indent=2, default=str, allow_nan=False)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(contents + "\n", encoding="utf-8")
    os.replace(temporary, path)


def environment() -> dict[str, Any]:
    """What a run depends on, beside its config: Python, the system, the packages' versions."""
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
    """The same, with strings for what JSON has no number for."""
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
