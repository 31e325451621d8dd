"""Scripts of which no account can be given: what was seen instead, the line, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of


def refuse(events: Sequence[Event], observation: Observation) -> None:
    """Say why a script that has come to its end, or was stopped, has not shown a training step.

    Raises:
        UsageError: it has not.
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
            f"the script calls backward ({where}) and makes no update that can be seen: {ended}. An update is an "
            "optimizer's step(), or a parameter that is written with its gradient; give it arguments with which it "
            "makes some, or more time: --time-limit SECONDS"
        )


def place(event: Event) -> str:
    """Where an event happened, for a message."""
    return place_of(event.get("where"))


def _of(events: Sequence[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event["event"] in kinds]


def _in_a_thread(events: Sequence[Event]) -> str:
    started = _of(events, "thread")
    where = f" that is started at {place(started[-1])}" if started else ""
    step = place(_of(events, "elsewhere")[0])
    return (
        f"the script trains in another thread{where} (its optimizer steps at {step}), and only its first thread is "
        "watched: call what the thread runs directly, in the script's own thread, and observe it again"
    )


def _never_backward(events: Sequence[Event], observation: Observation) -> str:
    processes, threads = _of(events, "process"), _of(events, "thread")
    updates = _of(events, "update")
    if processes:
        return (
            f"the script trains nothing in its own process, and starts another one at {place(processes[0])}: what that "
            "one trains is not seen. Observe the script that it runs, or have it train in its own process (one "
            "process, no spawn), and observe that"
        )
    if threads:
        return _in_a_thread([*events, {"event": "elsewhere", "where": threads[0].get("where")}])
    if updates:
        return (
            f"the script never calls backward, though an optimizer steps ({place(updates[0])}): gradients that are "
            "computed otherwise (torch.func.grad, gradients set by hand) are not seen. There is no path from a batch "
            "to a loss to tell of; call loss.backward()"
        )
    models = ", ".join(model["name"] for model in observation.models)
    seen = f"it made {models}" if models else "it made no model"
    calls = sum(event["event"] == "call" and event["has_parameters"] for event in events)
    stopped = observation.script.get("stopped")
    ended = f"was stopped: {stopped}" if stopped else "ended"
    return (
        f"the script never calls backward: {seen}, called models {calls} times, and {ended}. A training script is "
        "needed; does it need arguments to train (port script FILE -- --train), or more time (--time-limit SECONDS)?"
    )


def _refuse_a_loss_that_left_torch(events: Sequence[Event]) -> None:
    """A loss that no parameter and no model leads to trains nothing, whatever it is called."""
    backwards = _of(events, "backward")
    if any(event["reaches"] for event in backwards):
        return
    first = backwards[0]
    before = events[: list(events).index(first)]
    left = [event for event in before if event["event"] == "number" and event.get("parameter") is None]
    left += _cuts(first["path"])
    where = f" It is left at {place(left[-1])}: what is computed from there on has no gradient." if left else ""
    made = next((call for call in reversed(first["path"]) if call["kind"] == "function"), None)
    made_at = f", made at {place(made)}," if made else ""
    raise UsageError(
        f"the loss on which {place(first)} is called{made_at} does not come from a model: on its way it leaves torch, "
        f"and nothing is trained.{where} Compute the loss with torch's functions from the model's output on, without "
        ".item(), .numpy(), .detach() or torch.tensor(...) between them"
    )


def _refuse_cut_gradients(events: Sequence[Event], observation: Observation) -> None:
    """An update in which no parameter has a gradient changes nothing: the path was cut."""
    updates = [event for event in _of(events, "update") if not event["by_hand"]]
    sizes = {one["name"]: sum(len(g["parameters"]) for g in one["groups"]) for one in observation.optimizers}
    if not updates or any(event["closure"] or event["without_gradient"] < sizes[event["name"]] for event in updates):
        return
    cuts = [cut for event in _of(events, "backward") for cut in _cuts(event["path"])]
    where = f": the path to the loss is cut at {place(cuts[0])}" if cuts else ""
    raise UsageError(
        f"at {place(updates[0])} no parameter of {updates[0]['name']} has a gradient, so that nothing is trained"
        f"{where}. Leave out what detaches the model's output from the loss, or give the optimizer the parameters of "
        "the model that the loss comes from"
    )


def _cuts(path: Sequence[Event]) -> list[Event]:
    """The calls of a path from which no gradient comes back: what is detached, models that are called without."""
    return [
        call
        for call in path
        if call["name"].rpartition(".")[2] in ("detach", "detach_")
        or (call["kind"] == "module" and call["has_parameters"] and not call["grad"])
    ]
