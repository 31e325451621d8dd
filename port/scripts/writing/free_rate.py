"""The learning rate as an option: where a script gives its optimizer ``lr=args.lr``, the written one takes it too."""

from __future__ import annotations

import ast
import io
import math
import tokenize
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from port.scripts.events import Event
from port.scripts.observation import Observation

ANOTHER = 1.25
"""Times the rate: what changes with it in the written optimizer, and how, is seen."""


@dataclass(frozen=True)
class FreeRate:
    """A rate that the written optimizer takes.

    Attributes:
        option: the script's, by its name.
        value: that it had.
        optax: the optimizer's source, with ``lr`` in its places.
    """

    option: str
    value: float
    optax: str


def free_rate(
    observation: Observation, event: Event, optimizer: Optimizer, schedulers: Sequence[Any], write: Callable[[], str]
) -> FreeRate | None:
    """The rate, if an option is it and nothing else; None where not.

    Args:
        observation: of the script.
        event: that tells of the optimizer.
        optimizer: a copy of it.
        schedulers: of its rate.
        write: gives its source in optax.
    """
    option = _option(observation, event)
    rates = {float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups}
    if option is None or rates != {option["given"]}:
        return None
    value = float(option["given"])
    source = write()
    with _at_another_rate(optimizer, schedulers):
        other = write()
    written = _with_a_name(source, other, value)
    return FreeRate(option["name"], value, written) if written is not None else None


def _option(observation: Observation, event: Event) -> Event | None:
    """The option of ``lr=args.lr`` in the optimizer's construction, if the script reads it nowhere else."""
    where = (event["constructed"] or {}).get("where")
    if where is None:
        return None
    tree = ast.parse(Path(where["file"]).read_text("utf-8"))
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and one.lineno == where["line"]]
    for call in calls:
        given = [word.value for word in call.keywords if word.arg == "lr"] or call.args[1:2]
        for value in given:
            for option in observation.options:
                match value:
                    case ast.Attribute(value=ast.Name(), attr=name) if name == option["name"]:
                        uses = [one for one in ast.walk(tree) if isinstance(one, ast.Attribute) and one.attr == name]
                        return option if len(uses) == 1 and isinstance(option["given"], int | float) else None
    return None


@contextmanager
def _at_another_rate(optimizer: Optimizer, schedulers: Sequence[Any]) -> Iterator[None]:
    kept = [
        (group, {str(key): rate for key, rate in group.items() if key in ("lr", "initial_lr")})
        for group in optimizer.param_groups
    ]
    bases = [(one, one.base_lrs) for one in schedulers if hasattr(one, "base_lrs")]
    try:
        for group, rates in kept:
            group.update({key: rate * ANOTHER for key, rate in rates.items()})
        for scheduler, rates_before in bases:
            scheduler.base_lrs = [rate * ANOTHER for rate in rates_before]
        yield
    finally:
        for group, rates in kept:
            group.update(rates)
        for scheduler, rates_before in bases:
            scheduler.base_lrs = rates_before


def _with_a_name(source: str, other: str, value: float) -> str | None:
    """A source with ``lr`` where a number follows the rate; None where something else differs, or nothing."""
    rows = source.splitlines(keepends=True)
    places = []
    tokens, others = ([*tokenize.generate_tokens(io.StringIO(text).readline)] for text in (source, other))
    if len(tokens) != len(others):
        return None
    for one, changed in zip(tokens, others, strict=True):
        if one.string == changed.string:
            continue
        if one.type != tokenize.NUMBER or changed.type != tokenize.NUMBER:
            return None
        is_rate = float(one.string) == value and math.isclose(float(changed.string), value * ANOTHER, rel_tol=1e-12)
        if not is_rate:
            return None
        places.append((one.start, one.end))
    for (row, begin), (_, end) in reversed(places):
        text = rows[row - 1]
        rows[row - 1] = f"{text[:begin]}lr{text[end:]}"
    return "".join(rows) if places else None
