"""Write the page of a run's folder, ``run.html``, next to the files that it shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from port.report.page.page import write_run_page
from port.training import Outcome, Pairing, Remains, remains

NAME = "run.html"


def write_page_of_folder(outcomes: Sequence[Outcome | Remains], folder: Path, *, ended: str = "") -> Path:
    """Write the page into the run's folder, with its config and environment, and return its path."""
    path = folder / NAME
    write_run_page(
        outcomes,
        path,
        title=folder.resolve().name,
        config=_read(folder / "config.json"),
        environment=_read(folder / "environment.json"),
        ended=ended,
    )
    return path


def write_page_of_remains(pairings: Sequence[Pairing], folder: Path, error: BaseException) -> Path | None:
    """Write the page of a run that stopped early if there is anything to show, and return its path.

    Never raises: the error that ended the run is on its way to the user, and an error here must not replace it.
    """
    try:
        left = remains(pairings, folder)
        return write_page_of_folder(left, folder, ended=str(error) or "interrupted") if left else None
    except Exception:
        return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the page shows what could be read
        return {}
    return values if isinstance(values, dict) else {}
