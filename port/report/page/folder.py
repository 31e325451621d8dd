"""The page of a run's folder: ``run.html``, beside what the page is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from port.report.page.page import write_run_page
from port.training import Outcome, Pairing, Remains, remains

NAME = "run.html"


def write_page_of_folder(outcomes: Sequence[Outcome | Remains], folder: Path, *, ended: str = "") -> Path:
    """Write the page into the run's folder, with its config and its environment; returns where it is."""
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
    """Write the page of a run that broke off, as far as there is something to show; returns where it is.

    Never raises: what broke the run off is on its way to the user, and the page must not stand in its place.
    """
    try:
        left = remains(pairings, folder)
        return write_page_of_folder(left, folder, ended=str(error) or "interrupted") if left else None
    except Exception:
        return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the page says what there is
        return {}
    return values if isinstance(values, dict) else {}
