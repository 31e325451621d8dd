"""Find what differs between watched steps: scheduled rates, numbers in the loss, calls that only some steps make."""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from port.scripts.events import Event, line_key

OF_THE_DATA = {"torch.Tensor.__getitem__", "torch.Tensor.narrow", "torch.narrow", "torch.randint", "torch.tensor"}
"""Functions whose numeric arguments select the next part of the data."""


def differences_between(steps: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Find what differs between steps, each with its line and its value in every step.

    Batches, losses and values computed from them always differ, and are left out.
    """
    if len(steps) < 2:
        return []
    return [*_options(steps), *_constants(steps), *_shapes(steps), *_presence(steps)]


def _options(steps: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Options of an optimizer's groups."""
    values: dict[tuple[str, int, str], dict[int, Any]] = {}
    wheres: dict[str, Any] = {}
    files = sorted({line_key(event)[0] for step in steps for event in step if event.get("where")})
    scheduled = {event["optimizer"]: ("lr", "betas", "momentum") for s in steps for event in s if _schedules(event)}
    for number, step in enumerate(steps):
        for event in step:
            if event["event"] == "update" and not event["by_hand"]:
                wheres[event["name"]] = event["where"]
                for group, options in enumerate(event["groups"]):
                    for option, value in options.items():
                        values.setdefault((event["name"], group, option), {}).setdefault(number, value)
    found = []
    for (optimizer, group, option), by_step in values.items():
        if len({json.dumps(value) for value in by_step.values()}) > 1:
            by = [] if option in scheduled.get(optimizer, ()) else _assignments(option, files)
            what = {"kind": "option", "optimizer": optimizer, "group": group, "option": option, "set_at": by}
            found.append({**what, "where": wheres[optimizer], "values": _row(by_step, len(steps))})
    return found


def _schedules(event: Event) -> bool:
    return event["event"] == "schedule" and event.get("optimizer") is not None


def _assignments(option: str, files: Sequence[str]) -> list[str]:
    """The lines that set an option of a parameter group by hand: ``group["lr"] = …``."""
    pattern = re.compile(rf"""\[\s*['"]{option}['"]\s*\]\s*[-+*/]?=[^=]""")
    return [
        f"{Path(file).name}:{number}, `{line.strip()}`"
        for file in files
        for number, line in enumerate(linecache.getlines(file), 1)
        if pattern.search(line)
    ]


def _constants(steps: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Numeric arguments of the calls that lead to the loss."""
    values: dict[tuple[tuple[str, int], int, str, str], dict[int, Any]] = {}
    wheres: dict[tuple[str, int], Any] = {}
    behind: dict[tuple[tuple[str, int], int, str, str], bool] = {}
    for number, step in enumerate(steps):
        seen: dict[tuple[str, int], int] = {}
        has_model = False
        for call in _path_calls(step):
            has_model |= bool(call.get("has_parameters"))
            key = line_key(call)
            nth = seen[key] = seen.get(key, -1) + 1
            wheres[key] = call["where"]
            if call["name"] in OF_THE_DATA:
                continue
            for place, value in _numbers(call["arguments"]):
                values.setdefault((key, nth, call["name"], place), {})[number] = value
                behind[key, nth, call["name"], place] = has_model
    found = []
    for (key, nth, name, place), by_step in values.items():
        if len({json.dumps(value) for value in by_step.values()}) > 1:
            what = {
                "kind": "number",
                "function": name,
                "argument": place,
                "behind_a_model": behind[key, nth, name, place],
            }
            found.append({**what, "where": wheres[key], "values": _row(by_step, len(steps))})
    return found


def _shapes(steps: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Shapes of the models' inputs."""
    values: dict[tuple[str, tuple[str, int]], dict[int, Any]] = {}
    wheres: dict[tuple[str, int], Any] = {}
    for number, step in enumerate(steps):
        for event in step:
            if event["event"] == "call" and event["has_parameters"]:
                shapes = _tensors(event["arguments"])
                values.setdefault((event["name"], line_key(event)), {}).setdefault(number, shapes)
                wheres[line_key(event)] = event["where"]
    found = []
    for (name, key), by_step in values.items():
        if len({json.dumps(value) for value in by_step.values()}) > 1:
            row = [", ".join(value) if value else value for value in _row(by_step, len(steps))]
            found.append({"kind": "shape", "name": name, "where": wheres[key], "values": row})
    return found


def _presence(steps: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Events that occur in only some steps, or a different number of times."""
    kinds = {
        "call",
        "zero_grad",
        "backward",
        "clip",
        "update",
        "schedule",
        "average",
        "autocast",
        "print",
        "log",
        "save",
    }
    counts: dict[tuple[str, str, tuple[str, int]], dict[int, int]] = {}
    wheres: dict[tuple[str, int], Any] = {}
    for number, step in enumerate(steps):
        for event in step:
            if event["event"] in kinds:
                row = counts.setdefault((event["event"], event.get("name") or "", line_key(event)), {})
                row[number] = row.get(number, 0) + 1
                wheres[line_key(event)] = event["where"]
    found = []
    for (kind, name, key), by_step in counts.items():
        values = [by_step.get(number, 0) for number in range(len(steps))]
        if len(set(values)) > 1:
            found.append({"kind": "count", "what": kind, "name": name, "where": wheres[key], "values": values})
    return found


def _path_calls(step: Sequence[Event]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for event in step:
        if event["event"] == "backward":
            found.update((call["number"], call) for call in event["path"])
    return [found[number] for number in sorted(found)]


def _numbers(arguments: Any, place: str = "") -> list[tuple[str, Any]]:
    if isinstance(arguments, bool | str) or arguments is None:
        return []
    if isinstance(arguments, int | float):
        return [(place, arguments)]
    if isinstance(arguments, dict):
        if "tensor" in arguments:
            return []
        items = [(key if not place else f"{place}.{key}", value) for key, value in arguments.items()]
    else:
        items = [(f"{place}.{number}", value) for number, value in enumerate(arguments)]
    return [found for key, value in items for found in _numbers(value, key)]


def _tensors(arguments: Any) -> list[str]:
    if isinstance(arguments, dict):
        if "tensor" in arguments:
            return [str(arguments["tensor"])]
        return [found for value in arguments.values() for found in _tensors(value)]
    return [found for value in arguments for found in _tensors(value)] if isinstance(arguments, list) else []


def _row(by_step: dict[int, Any], count: int) -> list[Any]:
    return [by_step.get(number) for number in range(count)]
