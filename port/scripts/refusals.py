"""Refuse scripts that cannot be described: what was seen instead, at which line, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of


def refuse(events: Sequence[Event], observation: Observation) -> None:
    """Raise an error that says why a script that ended or was stopped showed no training step.

    Raises:
        UsageError: it showed none.
    """
    if _of(events, "elsewhere"):
        raise UsageError(_in_a_thread(events))
    if not _of(events, "backward"):
        raise UsageError(_never_backward(events, observation))
    _refuse_a_loss_that_left_torch(events)
    _refuse_cut_gradients(events, observation)
    if not observation.steps:
        where = place(_of(events, "backward")[0])
        stopped = observation.script.get("stopped")
        ended = f"{stopped} before it had made one" if stopped else "it ended without one"
        raise UsageError(
            f"the script calls backward ({where}) but makes no visible update: {ended}. An update is an optimizer's "
            "step(), or a write to a parameter that uses its gradient; pass arguments that make the script update, "
            "or allow more time: --time-limit SECONDS"
        )


def place(event: Event) -> str:
    """An event's location, for a message."""
    return place_of(event.get("where"))


def _of(events: Sequence[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event["event"] in kinds]


def _in_a_thread(events: Sequence[Event]) -> str:
    started = _of(events, "thread")
    where = f" that is started at {place(started[-1])}" if started else ""
    step = place(_of(events, "elsewhere")[0])
    return (
        f"the script trains in another thread{where} (its optimizer steps at {step}), but only the main thread is "
        "watched: call the thread's function directly in the main thread, and observe it again"
    )


def _never_backward(events: Sequence[Event], observation: Observation) -> str:
    processes, threads = _of(events, "process"), _of(events, "thread")
    updates = _of(events, "update")
    if processes:
        return (
            f"the script trains nothing in its own process, and starts another one at {place(processes[0])}, which is "
            "not watched. Observe the script that this process runs, or train in the script's process (one process, "
            "no spawn), and observe that"
        )
    if threads:
        return _in_a_thread([*events, {"event": "elsewhere", "where": threads[0].get("where")}])
    if updates:
        return (
            f"the script never calls backward, though an optimizer steps ({place(updates[0])}): gradients computed in "
            "other ways (torch.func.grad, gradients set by hand) are not seen, so there is no path from a batch to a "
            "loss to describe; call loss.backward()"
        )
    models = ", ".join(model["name"] for model in observation.models)
    seen = f"it made {models}" if models else "it made no model"
    calls = sum(event["event"] == "call" and event["has_parameters"] for event in events)
    stopped = observation.script.get("stopped")
    ended = f"was stopped: {stopped}" if stopped else "ended"
    return (
        f"the script never calls backward: {seen}, called models {calls} times, and {ended}. port needs a training "
        "script; does it need arguments to train (port script FILE -- --train), or more time (--time-limit SECONDS)?"
    )


def _refuse_a_loss_that_left_torch(events: Sequence[Event]) -> None:
    """Refuse a loss that depends on no parameter and no model: it trains nothing."""
    backwards = _of(events, "backward")
    if any(event["reaches"] for event in backwards):
        return
    first = backwards[0]
    before = events[: list(events).index(first)]
    left = [event for event in before if event["event"] == "number" and event.get("parameter") is None]
    left += _cuts(first["path"])
    where = f" It leaves torch at {place(left[-1])}: everything computed from there on has no gradient." if left else ""
    made = next((call for call in reversed(first["path"]) if call["kind"] == "function"), None)
    made_at = f", made at {place(made)}," if made else ""
    raise UsageError(
        f"the loss of {place(first)}{made_at} does not depend on a model: its computation leaves torch, so nothing is "
        f"trained.{where} Compute the loss from the model's output with torch functions only, without .item(), "
        ".numpy(), .detach() or torch.tensor(...) between them"
    )


def _refuse_cut_gradients(events: Sequence[Event], observation: Observation) -> None:
    """Refuse an update in which no parameter has a gradient: the path to the loss was cut."""
    updates = [event for event in _of(events, "update") if not event["by_hand"]]
    sizes = {one["name"]: sum(len(g["parameters"]) for g in one["groups"]) for one in observation.optimizers}
    if not updates or any(event["closure"] or event["without_gradient"] < sizes[event["name"]] for event in updates):
        return
    cuts = [cut for event in _of(events, "backward") for cut in _cuts(event["path"])]
    where = f": the path to the loss is cut at {place(cuts[0])}" if cuts else ""
    raise UsageError(
        f"at {place(updates[0])} no parameter of {updates[0]['name']} has a gradient, so nothing is trained"
        f"{where}. Remove what detaches the model's output from the loss, or pass the optimizer the parameters of the "
        "model that the loss depends on"
    )


def _cuts(path: Sequence[Event]) -> list[Event]:
    """The calls of a path that pass no gradient back: detach, and models called without gradients."""
    return [
        call
        for call in path
        if call["name"].rpartition(".")[2] in ("detach", "detach_")
        or (call["kind"] == "module" and call["has_parameters"] and not call["grad"])
    ]
