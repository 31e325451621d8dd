"""Find the order in which several optimizers use the gradients of several losses, from what the script did.

PyTorch adds each backward to a parameter's gradient until something clears it; an optimizer uses whatever is there.
This module finds, for each update, which losses' gradients it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.capture import LossPath


@dataclass(frozen=True)
class Turn:
    """Losses whose gradients are added, and the optimizers that step after them.

    Attributes:
        losses: the indices of the step's backwards, from 0.
        trains: the optimizers that use these gradients, in the order in which they step.
        updates: the optimizers that step after this turn and before the next one, each with the event of its step,
            which also names the models that it trains (``roots``).
    """

    losses: tuple[int, ...]
    trains: tuple[str, ...]
    updates: tuple[tuple[str, Event], ...]


def optimizers_in_turn(observation: Observation) -> list[str]:
    """The optimizers that step, in the order of their first updates."""
    names = [e["name"] for step in observation.steps for e in step if e["event"] == "update" and not e["by_hand"]]
    return list(dict.fromkeys(names))


def turns_of(observation: Observation, steps: Sequence[Sequence[LossPath]]) -> list[Turn]:
    """The turns of a step, which must be the same in all steps.

    Args:
        observation: the script's observation.
        steps: the paths to the losses of each step, in the order of their backwards.

    Raises:
        UsageError: the steps differ, or an update uses a gradient from another step.
    """
    parameters = _parameters(observation)
    found: list[list[Turn]] = []
    pending: dict[str, list[tuple[int, int]]] = {name: [] for names in parameters.values() for name in names}
    for number, (events, paths) in enumerate(zip(observation.steps, steps, strict=False)):
        found.append(_turns_of_step(number, events, paths, parameters, pending))
    for number, one in enumerate(found[1:], 1):
        if [(turn.losses, turn.trains) for turn in one] != [(turn.losses, turn.trains) for turn in found[0]]:
            raise UsageError(
                f"the optimizers do not step in the same order in all watched steps (step 0: {_said(found[0])}; step "
                f"{number}: {_said(one)}), perhaps because one steps several times for each step of another: write "
                "one function for each optimizer's update, and call them as the script does"
            )
    return found[0]


def _turns_of_step(
    number: int,
    events: Sequence[Event],
    paths: Sequence[LossPath],
    parameters: Mapping[str, Sequence[str]],
    pending: dict[str, list[tuple[int, int]]],
) -> list[Turn]:
    """The turns of one step; the gradients that remain after it are left in ``pending``."""
    order: list[int | tuple[str, Event]] = []
    taken: dict[str, tuple[int, ...]] = {}
    wheres = [event["where"] for event in events if event["event"] == "backward"]
    if len(wheres) != len(paths):
        raise UsageError(
            f"step {number} has {len(wheres)} losses, but the paths to only {len(paths)} of them were seen"
        )
    count = 0
    for event in events:
        match event["event"]:
            case "zero_grad":
                for name in _cleared(event, parameters, pending):
                    pending[name] = []
            case "backward":
                for name in paths[count].reached & pending.keys():
                    pending[name].append((number, count))
                order.append(count)
                count += 1
            case "update":
                if event["name"] in taken:
                    raise UsageError(f"{place_of(event['where'])} steps {event['name']} a second time in one update")
                taken[event["name"]] = _taken(event, number, parameters[event["name"]], pending)
                roots = sorted({one.partition(".")[0] for one in parameters[event["name"]]})
                order.append((event["name"], {**event, "roots": roots}))
    for place, where in enumerate(wheres):
        if not any(place in losses for losses in taken.values()):
            raise UsageError(f"no update of the same step uses the gradients of {place_of(where)}")
    return _grouped(order, taken)


def _taken(
    event: Event, step: int, names: Sequence[str], pending: Mapping[str, list[tuple[int, int]]]
) -> tuple[int, ...]:
    """The losses of this step whose gradients an update uses."""
    found = {tuple(pending[name]) for name in names}
    where = place_of(event["where"])
    if () in found:
        without = next(name for name in names if not pending[name])
        raise UsageError(f"{where} steps an optimizer whose {without} has no gradient: remove it from the optimizer")
    if any(number != step for one in found for number, _ in one):
        raise UsageError(
            f"{where} uses gradients left by an earlier step, because nothing clears them in between (call zero_grad "
            "before the backward of each update): if that is intended, write the sum of both by hand"
        )
    if len(found) > 1:
        raise UsageError(f"{where} uses gradients of different losses for different parameters")
    (losses,) = found
    return tuple(place for _, place in losses)


def _grouped(order: Sequence[int | tuple[str, Event]], taken: Mapping[str, tuple[int, ...]]) -> list[Turn]:
    turns: list[Turn] = []
    losses: list[int] = []
    updates: list[tuple[str, Event]] = []

    def users(place: int) -> tuple[str, ...]:
        return tuple(name for name, places in taken.items() if place in places)

    def close() -> None:
        if losses:
            turns.append(Turn(tuple(losses), users(losses[0]), tuple(updates)))
        losses.clear()
        updates.clear()

    for item in order:
        if isinstance(item, int):
            if updates or (losses and users(losses[0]) != users(item)):
                close()
            losses.append(item)
        else:
            updates.append(item)
    close()
    return turns


def _cleared(event: Event, parameters: Mapping[str, Sequence[str]], names: Mapping[str, Any]) -> list[str]:
    of = event["of"]
    if of in parameters:
        return list(parameters[of])
    return [name for name in names if name == of or name.startswith(f"{of}.")]


def _parameters(observation: Observation) -> dict[str, list[str]]:
    """The trained parameters of each optimizer that steps, by its name.

    Raises:
        UsageError: two hold the same parameter, or one holds a parameter of no model.
    """
    found: dict[str, list[str]] = {}
    frozen = {
        f"{model['name']}.{one['name']}"
        for model in observation.models
        for one in model["parameters"]
        if not one["trained"]
    }
    for name in optimizers_in_turn(observation):
        event = next(one for one in observation.optimizers if one["name"] == name)
        names = [one for group in event["groups"] for one in group["parameters"]]
        if None in names:
            raise UsageError(f"{name} holds a tensor that is no model's parameter: write its update by hand")
        found[name] = [one for one in names if one not in frozen]
    held = [one for names in found.values() for one in names]
    if len(set(held)) < len(held):
        twice = next(one for one in held if held.count(one) > 1)
        raise UsageError(f"two optimizers that step in turn hold {twice}: write their updates by hand")
    return found


def _said(turns: Sequence[Turn]) -> str:
    return ", then ".join(" and ".join(name for name, _ in turn.updates) or "none" for turn in turns)
