"""Write the loop of a script that trains on whole tensors made before it: its data is a loader of one batch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.epochs import epochs_of
from port.scripts.writing.loop import EpochLoop, bodies, is_behind, without_guard
from port.scripts.writing.same_data import own_module
from port.scripts.writing.taken_statements import names_loaded, names_set, runs, taken_statements


def are_whole(descriptions: Sequence[Mapping[str, Any]], observed: Sequence[Mapping[str, torch.Tensor]]) -> bool:
    """Whether all inputs of an update are variables of the script, the same in each update.

    Args:
        descriptions: where each input comes from, as described in the observation.
        observed: the inputs of each watched update.
    """
    are_variables = all(str(one.get("variable") or "").isidentifier() and "batch" not in one for one in descriptions)
    first = observed[0] if observed else {}
    are_alike = all(one.keys() == first.keys() for one in observed)
    return (
        bool(descriptions)
        and are_variables
        and are_alike
        and all(torch.equal(one[name], value) for one in observed for name, value in first.items())
    )


def whole_data_loop(observation: Observation, names: Sequence[str]) -> EpochLoop:
    """The loop over updates, each on all the data.

    Args:
        observation: the script's observation.
        names: the variables that hold the data.

    Raises:
        UsageError: it is not a plain loop; the message has the line, and what to write.
    """
    where: Event = next(e["where"] for e in observation.steps[0] if e["event"] == "update")
    file = Path(where["file"])
    tree = without_guard(ast.parse(file.read_text("utf-8")), where)
    for _, scope in bodies(tree):
        if any(isinstance(one, ast.For) and runs(one, where) for one in scope):
            break
    else:
        raise UsageError(f"{place_of(where)} is in no loop over a range: write the loop around train_step")
    epochs = epochs_of(tree, scope, where, where)
    loop = epochs.loop if epochs is not None else None
    if loop is None:
        raise UsageError(f"{place_of(where)} is in a loop that is not over a range: write the loop around train_step")
    before = [one for one in scope if one.lineno < loop.lineno]
    made = [_setting(before, name, where) for name in names]
    _check_unchanged(loop, names)
    taken = taken_statements(tree, scope, before, made, {*names_loaded(loop.iter), *names})
    target = loop.target.id if isinstance(loop.target, ast.Name) else "epoch"
    evaluated = observation.evaluation[0]["where"] if observation.evaluation else None
    at_end = evaluated is not None and is_behind(loop, scope, evaluated)
    all_data = f"[({', '.join(names)},)]"
    return EpochLoop(file, tree, {"training": all_data}, taken, loop.iter, target, evaluates_at_end=at_end)


def _setting(before: Sequence[ast.stmt], name: str, where: Event) -> ast.stmt:
    found = [one for one in before if name in names_set(one)]
    if not found:
        raise UsageError(
            f"no statement before the loop sets {name}, which is trained on at {place_of(where)}: write the loop "
            "around train_step"
        )
    return found[-1]


def _check_unchanged(loop: ast.For, names: Collection[str]) -> None:
    for one in ast.walk(loop):
        if isinstance(one, ast.stmt) and (changed := set(names) & set(names_set(one))):
            raise UsageError(
                f"line {one.lineno} sets {', '.join(sorted(changed))} in the loop: an update's inputs are then no "
                "longer all of the data; write the loop around train_step"
            )


def check_whole(file: Path, function: str, values: Sequence[torch.Tensor], where: str) -> None:
    """Check that original.py makes the script's tensors.

    Args:
        file: original.py.
        function: the function of original.py that makes the data.
        values: the script's tensors.
        where: the script's line.

    Raises:
        UsageError: it does not, or fails.
    """
    with own_module(file, where) as module:
        made, _ = getattr(module, function)(module.options().parse_args(sys.argv[1:]))
        (batch,) = made["training"]
        same = [torch.equal(one.detach(), value) for one, value in zip(batch, values, strict=True)]
    if not all(same):
        raise UsageError(
            f"{where}: its lines alone make other data, perhaps because the script draws something before it: give it "
            "a separate seeded generator, or save it, and observe it again"
        )
