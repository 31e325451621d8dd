"""Print an observation: the script's lines in the order in which they ran, and what each did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from port.scripts.account import ExecutedLine, fullest, rows_of, short_place, step_rows
from port.scripts.observation import Observation
from port.scripts.summary import (
    difference_lines,
    initial_lines,
    loader_lines,
    model_lines,
    optimizer_lines,
    option_lines,
    remarks,
    seed_lines,
)
from port.visible import visible

WIDTH = 160
"""The width in a file or a pipe, in columns."""


def print_observation(observation: Observation, console: Console) -> None:
    """Print the whole description."""
    _Account(observation, console).print()


class _Account:
    def __init__(self, observation: Observation, console: Console) -> None:
        self._seen = observation
        self._console = console
        self._script = _script_file(observation)

    def print(self) -> None:
        seen = self._seen
        count, command = len(seen.steps), " ".join(seen.script["command"])
        evaluated = "and an evaluation" if seen.evaluation else "and no evaluation"
        head = Text(f"{command}", "bold")
        head.append(f": {count} step{'s' if count > 1 else ''} {evaluated} watched", "not bold")
        self._console.print(head, soft_wrap=True)
        self._options()
        self._lines("seeds", seed_lines(seen))
        self._lines("models", model_lines(seen))
        self._lines("initial values set by the script", initial_lines(seen))
        self._lines("data", loader_lines(seen))
        self._lines("optimizers", optimizer_lines(seen))
        if seen.steps:
            self._rows("a step, line by line", step_rows(fullest(seen.steps), seen))
            lines = difference_lines(seen)
            if lines or count > 1:
                self._lines(
                    "what differed between the steps", lines, none="only the batches and what follows from them"
                )
        self._rows("after the steps", rows_of(seen.epoch, seen))
        self._rows("an evaluation", rows_of(seen.evaluation, seen))
        self._lines("saved", [(one["where"], one["where"]["text"], _saved(one)) for one in seen.saved])
        for remark in remarks(seen):
            self._console.print(Text(f"\nnote  {self._visible(remark)}", "yellow"), soft_wrap=True)

    def _options(self) -> None:
        lines = option_lines(self._seen)
        if lines:
            self._head("options")
            table = _grid()
            for flags, value, words in lines:
                table.add_row(
                    "", Text(self._visible(flags), "cyan"), self._visible(value), Text(self._visible(words), "dim")
                )
            self._console.print(table)

    def _lines(self, title: str, lines: Sequence[tuple[Any, str, str]], *, none: str = "") -> None:
        if not lines and not none:
            return
        self._head(title)
        table = _grid()
        for where, text, did in lines:
            place = short_place(where, self._script)
            table.add_row(Text(place, "dim"), Text(self._visible(text), "cyan"), self._visible(did))
        self._console.print(table if lines else Text(f"    {none}", "dim"))

    def _rows(self, title: str, rows: Sequence[ExecutedLine]) -> None:
        if not rows:
            return
        self._head(title)
        table = _grid()
        before: ExecutedLine | None = None
        for row in rows:
            if before is None or (row.file, row.function) != (before.file, before.function):
                file = "" if Path(row.file).resolve() == self._script else f"{Path(row.file).name}: "
                table.add_row("", Text(f"{file}{_in_function(row.function)}", "dim italic"), "")
            times = f"×{row.times} " if row.times > 1 else ""
            did = "; ".join(row.did)
            text = Text(f"  {self._visible(row.text)}", "cyan")
            table.add_row(Text(str(row.line), "dim"), text, Text.assemble((times, "yellow"), self._visible(did)))
            before = row
        self._console.print(table)

    def _head(self, title: str) -> None:
        self._console.print(Text(f"\n{title}", "bold"))

    def _visible(self, text: str) -> str:
        return visible(text, self._console.encoding)


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", max_width=70)
    table.add_column(overflow="fold")
    return table


def _in_function(name: str) -> str:
    return "at the top" if name == "<module>" else f"{name.replace('.<locals>', '')}()"


def _saved(event: dict[str, Any]) -> str:
    what = event["what"]
    said = what if isinstance(what, str) else f"a dict of {', '.join(what)}" if isinstance(what, dict) else "an object"
    return f"{said}{' → ' + event['into'] if event['into'] else ''}"


def _script_file(observation: Observation) -> Path:
    folder = Path(observation.script["folder"])
    if not observation.script["is_module"]:
        command = observation.script["command"]
        return (folder / command[len(observation.launcher)]).resolve()
    # For a module: the file in which most events happen.
    files = [event["where"]["file"] for step in observation.steps for event in step if event.get("where")]
    return Path(max(files, key=files.count)).resolve() if files else folder
