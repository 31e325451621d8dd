"""Trace the numbers of a script's optimizer and schedulers to their constructors' arguments."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer

from port.scripts.events import Event
from port.scripts.writing.constructor_call import arguments_by_name, constructor_call
from port.scripts.writing.held_numbers import Held, HeldByConstruction, Holder, RateOfGroup

EPOCHS = ("epochs", "steps_per_epoch")
"""Arguments that some schedulers take instead of their product, ``total_steps``."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Setting:
    """A number that a constructor takes.

    Attributes:
        name: the argument's name: ``weight_decay``, ``T_max``.
        node: the script's expression.
        held: where the copies hold it.
    """

    name: str
    node: ast.expr
    held: tuple[Holder, ...]

    def is_everywhere(self, value: float) -> bool:
        """Whether the copies hold a number in all of these places."""
        return bool(self.held) and all(one.get() == value for one in self.held)


def settings_of_optimizer(
    optimizer: Optimizer, event: Event, schedulers: Sequence[Any], constructed: Sequence[Arguments | None] = ()
) -> Iterator[Setting]:
    """The settings of an optimizer's groups.

    A rate is held by the schedulers as well, which multiply or replace it.

    Args:
        optimizer: a copy of the script's optimizer.
        event: its event.
        schedulers: copies of the schedulers.
        constructed: each scheduler's constructor arguments after its optimizer.
    """
    found = constructor_call(type(optimizer), event)
    if found is None:
        return
    tree, call = found
    groups = optimizer.param_groups
    arguments = dict(arguments_by_name(type(optimizer), call))
    own = _settings_of_groups(arguments.pop("params", None), tree)
    if own is not None and len(own) != len(groups):
        return
    for name, node in arguments.items():
        places = [number for number in range(len(groups)) if own is None or name not in own[number]]
        if name == "lr" and len(places) == len(groups) and _is_replaced(optimizer) and len(schedulers) == 1:
            for scheduler_arguments in filter(None, constructed):
                yield Setting(
                    name, node, (HeldByConstruction(schedulers[0], _bound(schedulers[0], scheduler_arguments), None),)
                )
            continue
        yield from _settings(name, node, [groups[number] for number in places], schedulers, places)
    for number, of_group in enumerate(own or ()):
        for name, node in of_group.items():
            yield from _settings(name, node, [groups[number]], schedulers, [number])


def settings_of_scheduler(scheduler: Any, event: Event, arguments: Arguments | None = None) -> Iterator[Setting]:
    """The settings of a scheduler.

    Args:
        scheduler: a copy of the script's scheduler.
        event: its event.
        arguments: its constructor arguments after its optimizer: to try another number, it is constructed again, unless
            it consists of other schedulers. Without them, the number is the attribute of the same name.
    """
    found = constructor_call(type(scheduler), event)
    nodes = dict(arguments_by_name(type(scheduler), found[1])) if found is not None else {}
    bound = _bound(scheduler, arguments) if arguments is not None else {}
    if nodes.keys() >= {*EPOCHS} and bound.keys() >= {*EPOCHS}:
        epochs, steps = (nodes.pop(name) for name in EPOCHS)
        nodes["total_steps"] = ast.copy_location(ast.BinOp(epochs, ast.Mult(), steps), epochs)
        bound["total_steps"] = math.prod(bound.pop(name) for name in EPOCHS)
    for name, node in nodes.items():
        held = next((key for key in (name, f"_{name}") if key in vars(scheduler)), None)
        if name in bound and name != "optimizer" and not hasattr(scheduler, "_schedulers"):
            yield Setting(name, node, (HeldByConstruction(scheduler, bound, name),))
        elif held is not None:
            yield from _settings(name, node, [vars(scheduler)], (), [], held)


def _is_replaced(optimizer: Optimizer) -> bool:
    """Whether a scheduler starts with other rates than the optimizer's."""
    return all(
        group.get("initial_lr", optimizer.defaults["lr"]) != optimizer.defaults["lr"]
        for group in optimizer.param_groups
    )


def _bound(scheduler: Any, arguments: Arguments) -> dict[str, Any]:
    """A scheduler's constructor arguments, by name."""
    bound = inspect.signature(type(scheduler)).bind(scheduler.optimizer, *arguments[0], **arguments[1])
    return dict(bound.arguments)


def _settings(
    name: str,
    node: ast.expr,
    containers: Sequence[dict[str, Any]],
    schedulers: Sequence[Any],
    places: Sequence[int],
    key: str | None = None,
) -> Iterator[Setting]:
    """One setting for a number; for a tuple or a list, one for each of its numbers."""
    key = key or name
    containers = [one for one in containers if key in one]
    if isinstance(node, ast.Tuple | ast.List):
        several = [one for one in containers if isinstance(one[key], tuple | list) and len(one[key]) == len(node.elts)]
        for number, element in enumerate(node.elts):
            yield Setting(name, element, tuple(Held(one, key, number) for one in several))
        return
    held: list[Holder] = [Held(one, key) for one in containers]
    if name == "lr":
        held = [RateOfGroup(one) for one in containers]
        held += [Held(one, "initial_lr") for one in containers if "initial_lr" in one]
        held += [Held(one.base_lrs, number) for one in schedulers if hasattr(one, "base_lrs") for number in places]
    yield Setting(name, node, tuple(held))


def _settings_of_groups(node: ast.expr | None, tree: ast.Module) -> list[dict[str, ast.expr]] | None:
    """The settings of each group with its own options; None if the source does not list the groups."""
    if isinstance(node, ast.Name):
        values = [one.value for one in ast.walk(tree) if isinstance(one, ast.Assign) and _sets(one, node.id)]
        node = values[0] if len(values) == 1 else None
    if not isinstance(node, ast.List | ast.Tuple) or not all(isinstance(one, ast.Dict) for one in node.elts):
        return None
    groups = [one for one in node.elts if isinstance(one, ast.Dict)]
    return [
        {
            str(key.value): value
            for key, value in zip(one.keys, one.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        for one in groups
    ]


def _sets(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
