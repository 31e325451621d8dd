"""Find states carried from step to step, as in truncated back-propagation: arguments and results of a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from port.scripts.observing.graph import Computation
from port.scripts.observing.statements import statement_text
from port.scripts.writing.capture import LossPath, PathTensor, mapped, path_tensors

Slot = tuple[int, int]
"""A call's index in a path, and a tensor's index among its arguments."""
Source = tuple[int, str]
"""A call's index in the previous path, and the index of its output."""


def with_states(paths: Sequence[LossPath]) -> list[LossPath]:
    """The paths, with each tensor that comes from the previous path marked as a named state.

    Args:
        paths: the paths of all watched steps, with the same calls, from `followed`.
    """
    sources: dict[Slot, Source] = {}
    found = [_carried(before, path) for before, path in pairwise(paths)]
    for carried in found:
        for slot, source in carried.items():
            if sources.setdefault(slot, source) != source:
                return list(paths)  # not the same in all steps
    if not sources:
        return list(paths)
    names = _names(paths[0].calls, list(dict.fromkeys(sources.values())))
    slots = {slot: names[source] for slot, source in sources.items()}
    return [_named(path, slots, names, bool(carried)) for path, carried in zip(paths, [{}, *found], strict=True)]


def _carried(before: LossPath, path: LossPath) -> dict[Slot, Source]:
    places = {call.number: place for place, call in enumerate(before.calls)}
    return {
        slot: (places[tensor.origin[0]], tensor.origin[1])
        for slot, tensor in _slots(path)
        if tensor.origin is not None and tensor.origin[0] in places
    }


def _slots(path: LossPath) -> Iterator[tuple[Slot, PathTensor]]:
    for place, call in enumerate(path.calls):
        for number, tensor in enumerate(path_tensors(call.live)):
            yield (place, number), tensor


def _names(calls: Sequence[Computation], sources: Sequence[Source]) -> dict[Source, str]:
    """Name each state by the variable that holds it after a step: ``hidden``; its parts ``hidden_0``, ``hidden_1``."""
    found: dict[Source, str] = {}
    for place, output in sources:
        name = _variable(calls[place], output)
        number = 2
        while name in found.values():
            name, number = f"{name}_{number}", number + 1
        found[place, output] = name
    return found


def _variable(call: Computation, output: str) -> str:
    parts = output.split(".") if output else []
    target = _target(call)
    while isinstance(target, ast.Tuple | ast.List) and parts and parts[0].isdigit():
        target, parts = next(iter(target.elts[int(parts[0]) :]), None), parts[1:]
    return "_".join([target.id if isinstance(target, ast.Name) else "carried", *parts])


def _target(call: Computation) -> Any:
    """The target to which a call's line assigns its result; None if it is not a single assignment."""
    if call.where is None:
        return None
    try:
        statements = ast.parse(statement_text(call.where["file"], call.where["line"])).body
    except SyntaxError:  # the head of a statement with a body
        return None
    match statements:
        case [ast.Assign(targets=[target, *_])]:
            return target
    return None


def variable_of(name: str) -> str:
    """The script's variable that holds a state, or that it is a part of."""
    stem, _, number = name.rpartition("_")
    return stem if number.isdigit() and stem else name


def _named(path: LossPath, slots: dict[Slot, str], names: dict[Source, str], goes_on: bool) -> LossPath:
    calls = []
    for place, call in enumerate(path.calls):
        count = iter(range(len(path_tensors(call.live))))

        def named(tensor: PathTensor, place: int = place, count: Iterator[int] = count) -> PathTensor:
            name = slots.get((place, next(count)))
            if name is None:
                return tensor
            return replace(tensor, description={"state": name}, call=None, variable=name, expression=None)

        calls.append(replace(call, live=mapped(call.live, named)))
    states = {name: (path.calls[place].number, output) for (place, output), name in names.items()}
    return replace(path, calls=calls, states=states, goes_on=goes_on)
