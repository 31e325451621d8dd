"""Where the numbers of a script's optimizer and schedulers come from: what their constructors are called with."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from port.scripts.events import Event


@dataclass(frozen=True)
class Held:
    """A number that a copy holds: in a dict or a list, perhaps in a tuple there."""

    container: Any
    key: Any
    place: int | None = None

    def get(self) -> Any:
        """The number."""
        value = self.container[self.key]
        return value if self.place is None else value[self.place]

    def set(self, value: Any) -> None:
        """Another one in its stead."""
        if self.place is not None:
            among = list(self.container[self.key])
            among[self.place] = value
            value = type(self.container[self.key])(among)
        self.container[self.key] = value


@dataclass(frozen=True)
class Setting:
    """A number that a constructor is given.

    Attributes:
        name: of the argument: ``weight_decay``, ``T_max``.
        node: the script's expression.
        held: where the copies hold it.
    """

    name: str
    node: ast.expr
    held: tuple[Held, ...]

    def is_everywhere(self, value: float) -> bool:
        """Whether the copies have a number at all of these places."""
        return bool(self.held) and all(one.get() == value for one in self.held)


def settings_of_optimizer(optimizer: Optimizer, event: Event, schedulers: Sequence[Any]) -> Iterator[Setting]:
    """The settings of an optimizer's groups.

    A rate is in the schedulers as well, which multiply it.

    Args:
        optimizer: a copy of the script's.
        event: that tells of it.
        schedulers: copies.
    """
    found = _call(type(optimizer), event)
    if found is None:
        return
    tree, call = found
    groups = optimizer.param_groups
    arguments = dict(_arguments(type(optimizer), call))
    own = _groups_given(arguments.pop("params", None), tree)
    if own is not None and len(own) != len(groups):
        return
    for name, node in arguments.items():
        places = [number for number in range(len(groups)) if own is None or name not in own[number]]
        yield from _settings(name, node, [groups[number] for number in places], schedulers, places)
    for number, given in enumerate(own or ()):
        for name, node in given.items():
            yield from _settings(name, node, [groups[number]], schedulers, [number])


def settings_of_scheduler(scheduler: Any, event: Event) -> Iterator[Setting]:
    """The settings of a scheduler that it holds under their own names.

    Args:
        scheduler: a copy of the script's.
        event: that tells of it.
    """
    found = _call(type(scheduler), event)
    for name, node in _arguments(type(scheduler), found[1]) if found is not None else ():
        held = next((key for key in (name, f"_{name}") if key in vars(scheduler)), None)
        if held is not None:
            yield from _settings(name, node, [vars(scheduler)], (), [], held)


def _settings(
    name: str,
    node: ast.expr,
    containers: Sequence[dict[str, Any]],
    schedulers: Sequence[Any],
    places: Sequence[int],
    key: str | None = None,
) -> Iterator[Setting]:
    """One of a number; of a tuple or a list, one of each of its numbers."""
    key = key or name
    containers = [one for one in containers if key in one]
    if isinstance(node, ast.Tuple | ast.List):
        several = [one for one in containers if isinstance(one[key], tuple | list) and len(one[key]) == len(node.elts)]
        for number, element in enumerate(node.elts):
            yield Setting(name, element, tuple(Held(one, key, number) for one in several))
        return
    held = [Held(one, key) for one in containers]
    if name == "lr":
        held += [Held(one, "initial_lr") for one in containers if "initial_lr" in one]
        held += [Held(one.base_lrs, number) for one in schedulers if hasattr(one, "base_lrs") for number in places]
    yield Setting(name, node, tuple(held))


def _call(cls: type, event: Event) -> tuple[ast.Module, ast.Call] | None:
    """The call that constructed it, in the script's source."""
    where = (event["constructed"] or {}).get("where")
    if where is None:
        return None
    tree = ast.parse(Path(where["file"]).read_text("utf-8"))
    calls = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Call)
        and one.lineno <= where["line"] <= (one.end_lineno or one.lineno)
        and ast.unparse(one.func).rpartition(".")[2] == cls.__name__
    ]
    return (tree, calls[0]) if len(calls) == 1 else None


def _arguments(cls: type, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """What a constructor is called with, by the names of its parameters."""
    names = list(inspect.signature(cls).parameters)
    if any(isinstance(one, ast.Starred) for one in call.args):
        return
    yield from zip(names, call.args, strict=False)
    yield from ((word.arg, word.value) for word in call.keywords if word.arg is not None)


def _groups_given(node: ast.expr | None, tree: ast.Module) -> list[dict[str, ast.expr]] | None:
    """The settings of each group that has some of its own; None where the source does not list the groups."""
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
