"""Find what changes the weights in an observed script: its optimizer and schedulers, or gradient descent by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from port.errors import StepsNeeded, UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import group_options, place_of
from port.scripts.writing.capture import Copies

MOST_WRITTEN = 2000
"""The most rates of a script's schedule function that are written out one by one."""


def optimizer_of(observation: Observation, copies: Copies, module: torch.nn.Module) -> torch.optim.Optimizer:
    """The copy of the optimizer that steps; if the script writes its weights itself, its equivalent, with rate 1."""
    names = _stepping(observation)
    if not names:
        return torch.optim.SGD([one for one in module.parameters() if one.requires_grad], lr=1.0)
    (found,) = [one for name, one in copies.optimizers.items() if name in names]
    return found


def freeze_the_others(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Freeze parameters that the optimizer does not have: a teacher's, a trunk's."""
    trained = {id(one) for group in optimizer.param_groups for one in group["params"]}
    for parameter in module.parameters():
        if id(parameter) not in trained:
            parameter.requires_grad_(False)


def rates_of(observation: Observation) -> list[float]:
    """The learning rate of each update, if the script sets it by hand."""
    events = [next(e for e in step if e["event"] == "update") for step in observation.steps]
    return [event["rate"] if event["by_hand"] else event["groups"][0]["lr"] for event in events]


def constructed_rate(observation: Observation) -> float:
    """The rate with which the optimizer is constructed; the first update's, if the script writes its weights itself."""
    event = optimizer_event(observation)
    rate = event["defaults"].get("lr") if event is not None else None
    return float(rate) if isinstance(rate, int | float) else rates_of(observation)[0]


def schedulers_of(observation: Observation, copies: Copies) -> list[Any]:
    """Copies of the schedulers that an update or an epoch steps, in order."""
    names = [*stepped(observation.steps[0]), *stepped(observation.epoch)]
    found = [copies.schedulers[name] for name in dict.fromkeys(names)]
    for one in [inner for scheduler in found for inner in (scheduler, *getattr(scheduler, "_schedulers", ()))]:
        if hasattr(one, "lr_lambdas"):
            # Its name would refer to the script's function, which is not copied: so its values are written.
            one.lr_lambdas = [f if getattr(f, "__name__", "") == "<lambda>" else partial(f) for f in one.lr_lambdas]
    return found


def scheduler_events(observation: Observation, copies: Copies) -> list[tuple[Any, Event, Any]]:
    """The copies of all schedulers, including nested ones, each with its event and arguments."""
    events = {event["name"]: event for event in observation.schedulers}
    return [
        (one, events[name], copies.scheduler_arguments.get(name))
        for name, one in copies.schedulers.items()
        if name in events
    ]


def stepped(events: Sequence[Event]) -> list[str]:
    """The names of the schedulers that are stepped."""
    return [event["name"] for event in events if event["event"] == "schedule"]


def updates_per_epoch(observation: Observation, microbatches: int) -> int | None:
    """The number of updates between two steps of the scheduler; None if every update steps it.

    Raises:
        UsageError: it is stepped at other times, and the length of an epoch is not known.
    """
    if stepped(observation.steps[0]):
        return None
    names = {event["name"] for event in observation.steps[0] if event["event"] == "batch"}
    lengths = [loader["batches"] for loader in observation.loaders if loader["name"] in names and loader["batches"]]
    if not lengths:
        where = next(place_of(event["where"]) for event in observation.epoch if event["event"] == "schedule")
        raise UsageError(f"{where} steps a scheduler after an epoch, whose number of updates was not seen")
    return int(lengths[0]) // microbatches


def steps_needed(
    write: Callable[[], str], planned: int | None, microbatches: int, per_epoch: int | None
) -> dict[str, int]:
    """``steps`` of `port.optax_source`, if a schedule's rates are written out because it is a function of the script.

    Args:
        write: the call of `port.optax_source` without ``steps``.
        planned: how many losses the script will compute in all.
        microbatches: the number of microbatches per update.
        per_epoch: the number of updates between two steps of the scheduler; None if every update steps it.

    Raises:
        UsageError: how many there will be is not known.
    """
    try:
        write()
    except StepsNeeded as needed:
        if planned is None:
            raise UsageError(
                f"{needed.why}: and how many updates the script makes is not seen, as "
                "its loops are over something else than ranges and loaders"
            ) from needed
        steps = planned // microbatches // (per_epoch or 1) + 1
        if steps > MOST_WRITTEN:
            raise UsageError(
                f"{needed.why}, and those of {steps} steps are no source: a scheduler of "
                f"torch's own, or its function in jax.numpy (port.optax_source(optimizer, schedule=…)), or up to "
                f"{MOST_WRITTEN}"
            ) from needed
        return {"steps": steps}
    return {}


def optimizer_event(observation: Observation) -> Event | None:
    """The optimizer's event; None if there is none."""
    names = _stepping(observation)
    return next((one for one in observation.optimizers if one["name"] in names), None)


def optimizer_words(observation: Observation) -> tuple[str, str]:
    """The optimizer's description, and the line that makes it."""
    event = optimizer_event(observation)
    if event is None:
        update = next(e for e in observation.steps[0] if e["event"] == "update")
        return "Gradient descent, which the original writes itself.", place_of(update["where"])
    groups = " | ".join(dict.fromkeys(group_options(group["options"]) for group in event["groups"]))
    where = (event["constructed"] or {}).get("where")
    made = f"{Path(where['file']).name}:{where['line']}" if where else "no line of the script"
    return f"{event['kind'].rpartition('.')[2]}, {groups}.", made


def _stepping(observation: Observation) -> set[str]:
    return {e["name"] for e in observation.steps[0] if e["event"] == "update" and not e["by_hand"]}
