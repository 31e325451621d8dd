"""Split a journal's events along the script's loop: its steps, what follows them, its evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from port.scripts.events import Event, line_key

OF_A_STEP = {
    "pass",
    "batch",
    "call",
    "zero_grad",
    "backward",
    "clip",
    "scaler",
    "autocast",
    "update",
    "schedule",
    "average",
    "written",
    "switch",
    "number",
    "print",
    "log",
    "save",
}
BEHIND = {"schedule", "save", "switch", "average", "written", "print", "log"}


def step_events(events: Sequence[Event]) -> list[list[Event]]:
    """The events of each watched iteration, in order, without evaluations."""
    watched = _watched(events)
    part = events[:watched]
    used = _on_a_path(events)
    count = 1 + max((event["iteration"] for event in part if event["event"] in ("update", "backward")), default=-1)
    steps: list[list[Event]] = [[] for _ in range(count)]
    for event in _without_evaluations(part, used):
        if event["event"] in OF_A_STEP and event["iteration"] < count:
            steps[event["iteration"]].append(event)
    if steps:
        steps[0] = _from_the_loop_on(steps[0])
        _take_the_last_ones_tail(steps, events[watched:])
    return [step for step in steps if any(event["event"] == "update" for event in step)]


def evaluation_events(events: Sequence[Event], steps: Sequence[Sequence[Event]]) -> list[Event]:
    """The events of the first evaluation: from its first call without gradients until the script trains again."""
    used = _on_a_path(events)
    first = next((number for number, event in enumerate(events) if _is_evaluation(event, used)), None)
    if first is None:
        return []
    begin, end = first, first + 1
    while begin > 0 and events[begin - 1]["event"] in ("batch", "pass", "switch", "loader", "model", "load"):
        before = events[begin - 1]
        if before["event"] == "switch" and before["training"]:
            break
        begin -= 1
    while end < len(events) and not _trains(events[end], used) and not _begins_another(events[end]):
        end += 1
    part = list(events[begin:end])
    while end < len(events) and (event := events[end])["event"] in ("switch", "print", "log"):
        part += [event] if event["event"] != "switch" else []  # its result is often printed by the caller
        end += 1
    return [event for event in part if event["event"] in OF_A_STEP]


def epochs_events(events: Sequence[Event], steps: Sequence[Sequence[Event]]) -> list[Event]:
    """The events after the watched steps that belong to no evaluation."""
    if not steps:
        return []
    known = {(event["event"], *line_key(event)) for step in steps for event in step}
    evaluation = {id(event) for event in evaluation_events(events, steps)}
    found: list[Event] = []
    for event in events[_watched(events) :]:
        if event["event"] in ("batch", "backward"):
            if any(e["event"] in ("schedule", "save") for e in found):
                break
            continue
        is_shown = event["event"] in BEHIND and (event["event"], *line_key(event)) not in known
        if is_shown and (id(event) not in evaluation or event["event"] in ("schedule", "save", "average")):
            found.append(event)
    return found


def _watched(events: Sequence[Event]) -> int:
    return next((number for number, event in enumerate(events) if event["event"] == "watched"), len(events))


def _on_a_path(events: Sequence[Event]) -> set[int]:
    return {call["number"] for event in events if event["event"] == "backward" for call in event["path"]}


def _is_evaluation(event: Event, used: set[int]) -> bool:
    is_model = event["event"] == "call" and event["has_parameters"]
    return is_model and not (event["grad"] and event["training"]) and event["number"] not in used


def _trains(event: Event, used: set[int]) -> bool:
    match event["event"]:
        case "backward" | "update" | "zero_grad" | "schedule":
            return True
        case "switch":
            return bool(event["training"])
        case "call":
            return event["number"] in used or (event["grad"] and event["training"] and event["has_parameters"])
    return False


def _begins_another(event: Event) -> bool:
    """Whether a second evaluation begins, such as on a test set at the script's end."""
    return event["event"] in ("load", "save") or (event["event"] == "switch" and not event["training"])


def _without_evaluations(events: Sequence[Event], used: set[int]) -> list[Event]:
    """The events, without those from an evaluation's first call until the script trains again."""
    found: list[Event] = []
    is_evaluating = False
    for event in events:
        if _is_evaluation(event, used):
            if not is_evaluating:
                while (found and found[-1]["event"] in ("batch", "pass")) or (
                    found and found[-1]["event"] == "switch" and not found[-1]["training"]
                ):
                    found.pop()
            is_evaluating = True
        elif is_evaluating and (_trains(event, used) or event["event"] == "pass"):
            is_evaluating = False
        if not is_evaluating:
            found.append(event)
    return found


def _from_the_loop_on(step: list[Event]) -> list[Event]:
    """The first step, without what ran once before the loop."""
    of_the_loop = ("batch", "call", "zero_grad", "backward", "update", "autocast", "pass")
    begin = next((number for number, event in enumerate(step) if event["event"] in of_the_loop), 0)
    return step[begin:]


def _take_the_last_ones_tail(steps: list[list[Event]], rest: Sequence[Event]) -> None:
    """Move the last step's events after its update into the step: they follow the event that ends the watching."""
    last = steps[-1]
    number = last[-1]["iteration"] if last else -1
    for event in rest:
        if (
            event["event"] in ("batch", "pass", "switch", "ended early", "call", "backward")
            or event.get("iteration") != number
        ):
            return
        if event["event"] in OF_A_STEP:
            last.append(event)
