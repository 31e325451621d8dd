"""Find optimizer settings that come from a script's options: arguments of the written one, ``lr``, ``T_max``."""

from __future__ import annotations

import ast
import io
import math
import tokenize
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.optimizer_settings import Arguments, Setting, settings_of_optimizer, settings_of_scheduler
from port.scripts.writing.option_expressions import OptionExpression, OptionExpressions

Token = tuple[int, int]


@dataclass(frozen=True)
class FreeNumber:
    """A number that the written optimizer takes.

    Attributes:
        name: the argument's name.
        value: the observed value.
        expression: an expression of the script's options.
        file: the expression's file.
    """

    name: str
    value: int | float
    expression: OptionExpression
    file: Path


@dataclass(frozen=True)
class FreeNumbers:
    """The free numbers, and the optimizer's source.

    Attributes:
        numbers: one for each distinct number.
        covered: all expressions that they replace, each with its file; including those without effect, such as an
            optimizer's rate that its schedule replaces.
        optax: the source, with the numbers replaced by their names.
    """

    numbers: tuple[FreeNumber, ...]
    covered: tuple[tuple[Path, OptionExpression], ...]
    optax: str


def free_numbers(
    observation: Observation,
    optimizer: Optimizer,
    schedulers: Sequence[Any],
    events: Sequence[tuple[Any, Event, Arguments | None]],
    write: Callable[[], str],
    taken: Collection[str] = (),
) -> FreeNumbers:
    """Find the free numbers: try each at another value, and compare the sources.

    Args:
        observation: the script's observation.
        optimizer: a copy of the script's optimizer.
        schedulers: copies of its schedulers.
        events: the optimizer and the schedulers, each with its event, and a scheduler with its constructor arguments
            after the optimizer.
        write: returns their source in optax.
        taken: names that arguments must not have.
    """
    source = write()
    numbers: list[FreeNumber] = []
    covered: list[tuple[Path, OptionExpression]] = []
    places: dict[Token, tuple[str, int]] = {}
    for thing, event, arguments in events:
        if thing is optimizer:
            settings = settings_of_optimizer(thing, event, schedulers, [constructed for *_, constructed in events[1:]])
        else:
            settings = settings_of_scheduler(thing, event, arguments)
        for setting, expression, file in _of_options(settings, event, observation):
            found = _places(source, setting, expression.value, write)
            name = next((one.name for one in numbers if _is_same(one.expression, expression)), None)
            name = name or _free_name(setting.name, expression, {*taken, *(one.name for one in numbers)})
            if found is None or places.keys() & found.keys() or name is None:
                continue
            covered.append((file, expression))
            places |= {begin: (name, end) for begin, end in found.items()}
            if found and name not in {one.name for one in numbers}:
                numbers.append(FreeNumber(name, expression.value, expression, file))
    return FreeNumbers(tuple(numbers), tuple(covered), _with_names(source, places))


def _of_options(
    settings: Iterator[Setting], event: Event, observation: Observation
) -> Iterator[tuple[Setting, OptionExpression, Path]]:
    """The settings computed from options whose values match those in the copies."""
    where = (event["constructed"] or {}).get("where")
    if where is None:
        return
    file = Path(where["file"])
    expressions = OptionExpressions(ast.parse(file.read_text("utf-8")), observation.options, observation.loaders)
    for setting in settings:
        expression = expressions.of(setting.node)
        if expression is not None and setting.is_everywhere(expression.value):
            yield setting, expression, file


def _is_same(one: OptionExpression, other: OptionExpression) -> bool:
    return ast.dump(one.expression) == ast.dump(other.expression)


def _free_name(name: str, expression: OptionExpression, taken: Collection[str]) -> str | None:
    """The argument's name, the option's name, or the argument's name with a number suffix."""
    names = [name, *(expression.options if len(expression.options) == 1 else ()), *(f"{name}{n}" for n in range(2, 10))]
    return next((one for one in names if one not in taken), None)


def _another(value: float) -> float:
    """A nearby value."""
    return value + 1 if isinstance(value, int) else value * 1.25 if value else 0.25


@contextmanager
def _at(setting: Setting, value: float) -> Iterator[None]:
    before = [one.get() for one in setting.held]
    try:
        for one in setting.held:
            one.set(type(one.get())(value))
        yield
    finally:
        for one, kept in zip(setting.held, before, strict=True):
            one.set(kept)


def _places(source: str, setting: Setting, value: float, write: Callable[[], str]) -> dict[Token, int] | None:
    """The positions of a number in a source, as (row, column) → end column.

    None if something else changes with it, such as a value derived from it, which would keep its old value.
    """
    other = _another(value)
    with _at(setting, other):
        try:
            changed_source = write()
        except Exception:  # something rejects the other value: the number stays fixed
            return None
    tokens, others = ([*tokenize.generate_tokens(io.StringIO(text).readline)] for text in (source, changed_source))
    if len(tokens) != len(others):
        return None
    found = {}
    for one, changed in zip(tokens, others, strict=True):
        if one.string == changed.string:
            continue
        are_numbers = one.type == changed.type == tokenize.NUMBER
        if not are_numbers or float(one.string) != value:
            return None
        if not math.isclose(float(changed.string), other, rel_tol=1e-12):
            return None
        found[one.start] = one.end[1]
    return found


def _with_names(source: str, places: dict[Token, tuple[str, int]]) -> str:
    rows = source.splitlines(keepends=True)
    for (row, begin), (name, end) in sorted(places.items(), reverse=True):
        text = rows[row - 1]
        rows[row - 1] = f"{text[:begin]}{name}{text[end:]}"
    return "".join(rows)
