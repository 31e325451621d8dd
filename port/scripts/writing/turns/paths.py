"""Find what each turn computes first, what it recomputes, and what it takes from an earlier turn.

The script makes a generator's images once and uses them twice. If the second loss has a gradient through them, they
are recomputed (in one jitted step XLA computes them once); otherwise they are the first turn's values, computed before
its optimizer stepped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.observing.graph import Computation
from port.scripts.wording import place_of
from port.scripts.writing.capture import LossPath, PathTensor, mapped, path_tensors
from port.scripts.writing.followed import from_models
from port.scripts.writing.replaying import dropouts_in
from port.scripts.writing.turns.order import Turn


@dataclass(frozen=True)
class CarriedTensor:
    """A tensor that a turn takes from an earlier one.

    Attributes:
        turn: the earlier one, counted from 0.
        call: the number of the call that returned it.
        output: which of the call's outputs, if there are several.
    """

    turn: int
    call: int
    output: str | None


@dataclass(frozen=True)
class TurnPath:
    """The calls of one turn in one step.

    Attributes:
        path: its calls, in the script's order; its value is the sum of the losses.
        losses: the numbers of the calls that return the losses.
        values: the losses' values.
        again: the models that this turn calls again with an earlier turn's arguments.
        carried: the tensors that it takes from earlier turns.
    """

    path: LossPath
    losses: tuple[int, ...]
    values: tuple[float, ...]
    again: frozenset[str]
    carried: tuple[CarriedTensor, ...]


def turn_paths(turns: Sequence[Turn], losses: Sequence[LossPath], models: Mapping[str, Any]) -> list[TurnPath]:
    """The calls of each turn of a step.

    Args:
        turns: the script's turns.
        losses: the paths to the step's losses, in the order of their backwards.
        models: the script's modules, by name.

    Raises:
        UsageError: a turn needs a value that an optimizer has changed since.
    """
    found: list[TurnPath] = []
    home: dict[int, int] = {}  # a call → the turn that makes it first
    for number, turn in enumerate(turns):
        paths = [losses[place] for place in turn.losses]
        calls = {call.number: call for path in reversed(paths) for call in path.calls}
        ends = tuple(path.calls[-1].number for path in paths)
        kept, carried = _needed(calls, ends, home)
        again = {
            call.name.partition(".")[0] for call in kept if call.number in home and call.more.get("has_parameters")
        }
        _check_again(kept, again, home, number, turns, models)
        _check_new(kept, home, number, turns)
        for call in kept:
            home.setdefault(call.number, number)
        path = LossPath(paths[0].iteration, kept, sum(one.value for one in paths))
        found.append(TurnPath(path, ends, tuple(one.value for one in paths), frozenset(again), carried))
    return found


def _needed(
    calls: Mapping[int, Computation], ends: Sequence[int], home: Mapping[int, int]
) -> tuple[list[Computation], tuple[CarriedTensor, ...]]:
    """The calls of a turn, with earlier turns' tensors as arguments, and the list of these tensors."""
    models = from_models([calls[number] for number in sorted(calls)])
    differentiated = _differentiated(calls, ends)
    carried: dict[CarriedTensor, None] = {}
    kept: dict[int, Computation] = {}
    pending = list(ends)

    def taken(call: Computation, tensor: PathTensor) -> PathTensor:
        number = tensor.call
        if number is None or number not in calls:
            return tensor
        has_gradient = call.number in differentiated and tensor.value is None
        if number in home and number in models and not has_gradient:
            carried[CarriedTensor(home[number], number, tensor.description.get("output"))] = None
            value = tensor.value if tensor.value is not None else torch.zeros(())
            return replace(tensor, description={**tensor.description, "turn": home[number]}, value=value)
        pending.append(number)
        return tensor

    while pending:
        call = calls[pending.pop()]
        if call.number not in kept:
            kept[call.number] = changed = replace(call)
            changed.live = mapped(call.live, partial(taken, call))
    return [kept[number] for number in sorted(kept)], tuple(carried)


def _differentiated(calls: Mapping[int, Computation], ends: Sequence[int]) -> set[int]:
    """The calls through which a gradient flows back."""
    pending, found = list(ends), set[int]()
    while pending:
        number = pending.pop()
        if number not in found and number in calls:
            found.add(number)
            pending += [
                one.call for one in path_tensors(calls[number].live) if one.call is not None and one.value is None
            ]
    return found


def _check_again(
    calls: Sequence[Computation],
    again: set[str],
    home: Mapping[int, int],
    number: int,
    turns: Sequence[Turn],
    models: Mapping[str, Any],
) -> None:
    for call in calls:
        root = call.name.partition(".")[0]
        if root not in again or not call.more.get("has_parameters"):
            continue
        if call.number in home and (name := _stepped(root, turns[home[call.number] : number])) is not None:
            raise UsageError(f"{place_of(call.where)} is needed after the step of {name}, which changes {root}")
        if any(dropouts_in(models[root])):
            raise UsageError(
                f"{place_of(call.where)} draws dropout, and two losses with a step between them use its output: the "
                "second would have another mask; write the update by hand"
            )
        if call.number not in home and any(True for _ in models[root].buffers()):
            raise UsageError(
                f"{place_of(call.where)} calls {root} again, the same loss uses an earlier call of it, and both change "
                "its running statistics: write the two calls in one update"
            )


def _check_new(calls: Sequence[Computation], home: Mapping[int, int], number: int, turns: Sequence[Turn]) -> None:
    """Refuse a value computed before an optimizer's step but used only after it: it has the weights before the step."""
    for call in calls:
        if call.number in home or not call.more.get("has_parameters"):
            continue
        for turn in turns[:number]:
            for name, event in turn.updates:
                if call.number <= event["calls"] and call.name.partition(".")[0] in _roots(event):
                    raise UsageError(
                        f"{place_of(call.where)} is computed before {name} steps, but its loss after that: compute it "
                        "after the step, or write the update by hand"
                    )


def _stepped(root: str, turns: Sequence[Turn]) -> str | None:
    return next((name for turn in turns for name, event in turn.updates if root in _roots(event)), None)


def _roots(event: Any) -> set[str]:
    return set(event["roots"])
