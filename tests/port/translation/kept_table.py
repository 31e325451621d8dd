"""A table of what was seen, one JSON object a row, each made in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
Row = dict[str, Any]


@dataclass(frozen=True)
class KeptTable:
    """The table, and how its rows are made.

    Attributes:
        path: where it lies.
        module: a command that prints the row of ``--one NAME`` in its last line.
        key: under which a row has its name.
    """

    path: Path
    module: str
    key: str = "name"

    def alone(self, name: str, seconds: float, *options: str) -> Row:
        """A row that is made in a process of its own, which is ended when it takes too long."""
        command = [sys.executable, "-m", self.module, "--one", name, *options]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return {self.key: name, "why": f"more than {seconds:g} seconds"}
        if done.returncode:
            said = done.stderr.strip().splitlines()
            return {self.key: name, "why": f"exit {done.returncode}: {said[-1] if said else ''}"[:500]}
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]

    def rows(self) -> dict[str, Row]:
        """The kept rows, by name."""
        return {row[self.key]: row for row in json.loads(self.path.read_text())} if self.path.exists() else {}

    def keep(self, rows: Mapping[str, Row], names: Iterable[str]) -> None:
        """Write rows over those that are kept, one a line.

        Args:
            rows: by name.
            names: of all that there may be, in the table's order.
        """
        known = {**self.rows(), **rows}
        lines = [json.dumps(known[name]) for name in names if name in known]
        self.path.write_text("[\n" + ",\n".join(lines) + "\n]\n")

    def rows_in(self, lines: Path) -> dict[str, Row]:
        """The rows that a file of lines holds, by name."""
        rows = [json.loads(line) for line in lines.read_text().splitlines() if line] if lines.exists() else []
        return {row[self.key]: row for row in rows}
