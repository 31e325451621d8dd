"""Describe an observation line by line: the script's parts, and what each line of a step did."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from port.scripts.events import Event, line_key
from port.scripts.observation import Observation
from port.scripts.observing.statements import statement_line, statement_text
from port.scripts.wording import said_of

LEFT_OUT = (
    "torch.amp.GradScaler.scale",
    "torch.Tensor.to",
    "torch.Tensor.cuda",
    "torch.Tensor.cpu",
    "torch.Tensor.float",
    "torch.Tensor.double",
)
"""Calls left out: moves of a batch that change nothing, and calls that have a separate event."""


@dataclass(frozen=True)
class ExecutedLine:
    """One executed line of the script.

    Attributes:
        file: the source file.
        line: the statement's first line.
        function: the enclosing function.
        text: the statement, on one line.
        did: what it did, in words.
        times: how many times in a row it ran; in a repeated block, every line has the block's count.
    """

    file: str
    line: int
    function: str
    text: str
    did: tuple[str, ...] = ()
    times: int = 1
    depth: int = field(default=0)


def fullest(steps: Sequence[Sequence[Event]]) -> Sequence[Event]:
    """The first of the steps that run the most lines: one that includes a GAN generator's turn, too."""
    return max(steps, key=lambda step: len({(event["event"], *line_key(event)) for event in step}))


def step_rows(step: Sequence[Event], observation: Observation) -> list[ExecutedLine]:
    """What one step does, line by line; repeated blocks (microbatches) appear once."""
    return folded(_rows(_with_paths(step), observation))


def rows_of(events: Iterable[Event], observation: Observation) -> list[ExecutedLine]:
    """What other events did, line by line."""
    return folded(_rows(_with_paths(list(events)), observation))


def folded(rows: Sequence[ExecutedLine]) -> list[ExecutedLine]:
    """Collapse consecutive repetitions of a block into one, with a repeat count."""
    found: list[ExecutedLine] = []
    at = 0
    while at < len(rows):
        length, times = _repetition(rows, at)
        for row in rows[at : at + length]:
            found.append(ExecutedLine(row.file, row.line, row.function, row.text, row.did, times))
        at += length * times
    return found


def _repetition(rows: Sequence[ExecutedLine], at: int) -> tuple[int, int]:
    """The length of the block that begins at ``at``, and how many times it repeats; (1, 1) if it does not."""
    keys = [(row.file, row.line) for row in rows]
    best = (1, 1)
    for length in range(1, (len(rows) - at) // 2 + 1):
        block = keys[at : at + length]
        times = 1
        while keys[at + length * times : at + length * (times + 1)] == block:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best


def _with_paths(events: Sequence[Event]) -> list[Event]:
    """The events, each preceded by the calls that computed its inputs, in execution order."""
    found: list[tuple[tuple[int, int, int], Event]] = []
    known: set[int] = {event["number"] for event in events if event["event"] == "call"}
    for place, event in enumerate(events):
        if event["event"] == "call":
            found.append(((event["number"], 0, place), event))
            continue
        for call in event.get("path") or ():
            if call["number"] not in known and call["name"] not in LEFT_OUT:
                known.add(call["number"])
                found.append(((call["number"], 0, place), {"event": "function", **call}))
        found.append(((event["calls"], 1, place), event))
    return [event for _, event in sorted(found, key=lambda one: one[0])]


def _rows(events: Sequence[Event], observation: Observation) -> list[ExecutedLine]:
    rows: list[ExecutedLine] = []
    for event in events:
        file, line = line_key(event)
        where = event.get("where")
        if where is None:
            continue
        line = statement_line(file, line)
        did = said_of(event, observation)
        if rows and (rows[-1].file, rows[-1].line) == (file, line):
            if did and did not in rows[-1].did:
                before = rows[-1]
                rows[-1] = ExecutedLine(file, line, before.function, before.text, (*before.did, did))
            continue
        text = statement_text(file, line) or where["text"]
        rows.append(ExecutedLine(file, line, where["function"], text, (did,) if did else ()))
    return rows


def source_line(where: dict[str, Any]) -> str:
    """A line of source, without indentation."""
    return linecache.getline(where["file"], where["line"]).strip()


def short_place(where: dict[str, Any] | None, script: Path) -> str:
    """A readable location: "98", or "model.py:12" if it is not in the script itself."""
    if not where:
        return ""
    same = Path(where["file"]).resolve() == script
    return str(where["line"]) if same else f"{Path(where['file']).name}:{where['line']}"
