"""Whether the data that a written original.py makes, by the script's own lines alone, is what the script had."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.imported_file import import_file
from port.scripts.observing.batching import batching
from port.scripts.own_draws import OwnDraws
from port.scripts.wording import place_of
from port.scripts.writing.loop import EpochLoop

NAME = "written_original"
MOST_STATES = 40
"""Of the generators, that are tried for a batch."""


class DrawnBehind(UsageError):
    """The data that the lines alone make is another one, as where it is drawn behind other draws."""


class DrawnInLoop(UsageError):
    """The batches are drawn by generators that all share."""


@contextmanager
def own_module(file: Path, line: str) -> Iterator[Any]:
    """original.py, imported; what fails within is said to be of a line.

    Raises:
        UsageError: it fails.
    """
    try:
        yield import_file(file, NAME)
    except (Exception, SystemExit) as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise UsageError(
            f"{line}: the data cannot be made by the lines before it alone ({type(error).__name__}: {first}): write "
            "the loop around train_step, with the data as it is"
        ) from error
    finally:
        sys.modules.pop(NAME, None)


def check_data(
    file: Path,
    loop: EpochLoop,
    function: str,
    loaders: Mapping[str, Any],
    training: Event,
    evaluation: Event | None,
    numbers: Sequence[Sequence[float]] = (),
) -> None:
    """Whether original.py gives the loaders that the script had, and the numbers of its first updates.

    Raises:
        DrawnBehind: the data is another.
        UsageError: the numbers are others, or it fails.
    """
    line = place_of((training["constructed"] or training)["where"])
    with own_module(file, line) as module:
        made, _, *inputs = getattr(module, function)(module.options().parse_args(sys.argv[1:]))
        given = inputs.pop()(len(made["training"])) if loop.numbers else ()
        found_numbers = [[*one] if isinstance(one, tuple) else [one] for one in islice(given, len(numbers))]
        for one in inputs:
            one(next(iter(made["training"])))
        pairs = {"training": loaders[training["name"]]}
        if evaluation is not None:
            pairs["evaluation"] = loaders[evaluation["name"]]
        # Of several processes the first one's: `WholeBatches` holds the loaders of all.
        ours = {role: getattr(made[role], "loaders", [made[role]])[0] for role in pairs}
        found = {role: difference_of(theirs, ours[role]) for role, theirs in pairs.items()}
    if not _are_close(found_numbers, numbers):
        raise UsageError(
            f"{line}: made by the loop's own lines alone, the numbers that the updates are given are {found_numbers}, "
            f"and the script's are {[*map(list, numbers)]}: compute them by hand, and call train_step with them"
        )
    for role, difference in found.items():
        if difference:
            raise DrawnBehind(
                f"{line}: made by its own lines alone, the data of {loop.loaders[role]} is another ({difference}), as "
                "where it is drawn behind other draws: seed a generator of its own, or save it, and observe it again"
            )


def check_own_batches(
    file: Path, function: str, observed: Sequence[Sequence[torch.Tensor]], where: Any, rate: float | None
) -> None:
    """Whether the first batches that original.py makes are those that the script had, and its first rate.

    Args:
        file: original.py.
        function: of original.py, which makes the data.
        observed: each step's parts of a batch, those of one pass.
        where: the script's line.
        rate: the first learning rate, where the script sets it by hand.

    Raises:
        DrawnInLoop: they are drawn.
        UsageError: they are others, or fail.
    """
    line = place_of(where)
    with own_module(file, line) as module:
        passes = []
        for seed in (0, 1):
            made, _ = getattr(module, function)(module.options().parse_args(sys.argv[1:]))
            with OwnDraws(None, seed)():
                passes.append([[*batch] for batch in islice(made["training"], len(observed))])
        first = rate if rate is None else next(module.rates(module.options().parse_args(sys.argv[1:])))
    if first != rate:
        raise UsageError(
            f"{line}: made by its own lines alone, the first learning rate is {first}, and the script's is {rate}: "
            "compute it before each call of train_step"
        )
    if not all(map(_are_same, *passes)):
        raise DrawnInLoop(f"{line}: its batches are drawn in the loop: draw them by a generator of their own")
    ours, theirs = ([[part.reshape(-1) for part in batch] for batch in one] for one in (observed, passes[0]))
    if not theirs or not all(map(_are_same, ours, theirs)):  # a pass may be shorter than what was watched
        raise UsageError(f"{line}: made by its own lines alone, its batches are others: write the loop by hand")


@dataclass(frozen=True)
class SeenBatch:
    """A batch that a loop over steps has drawn.

    Attributes:
        number: counted from 0.
        parts: of it.
        before: what puts back the states that the generators had before it was used, the last one first.
    """

    number: int
    parts: Sequence[torch.Tensor]
    before: Sequence[Callable[[], None]]


def check_steps(file: Path, function: str, seen: Sequence[SeenBatch], rates: Sequence[float], where: Any) -> None:
    """Whether the loop over steps that original.py has draws the script's batches, and has its rates.

    Args:
        file: original.py.
        function: of original.py, which makes the data.
        seen: batches.
        rates: of the watched updates, where the script sets them by hand.
        where: the script's line.

    Raises:
        DrawnBehind: the batches are others.
        UsageError: the rates are others, or they fail.
    """
    line = place_of(where)
    with own_module(file, line) as module:

        def made() -> tuple[Any, Any]:
            found: tuple[Any, Any] = getattr(module, function)(module.options().parse_args(sys.argv[1:]))
            return found

        given = [one[1] for one in islice((one for one in made()[1] if one[0] == "update"), len(rates))]
        others = [one for one in seen if not any(_are_same(one.parts, found) for found in _drawn_again(one, made))]
    if given != list(rates):
        raise UsageError(
            f"{line}: made by its own lines alone, the learning rates are {given}, and the script's are {[*rates]}: "
            "compute it before each call of train_step"
        )
    if others:
        raise DrawnBehind(
            f"{line}: made by its own lines alone, its batches are others, as where the data is drawn behind other "
            "draws: seed a generator of its own, or save it, and observe it again"
        )


def _drawn_again(seen: SeenBatch, made: Callable[[], tuple[Any, Any]]) -> Iterator[Sequence[Any]]:
    """A batch as original.py draws it, from each of the states that the generators had."""
    for put_back in seen.before[:MOST_STATES]:
        batches = iter(made()[0]["training"])
        for _ in range(seen.number):
            next(batches, None)
        put_back()
        yield [*next(batches, ())]


def _are_close(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> bool:
    """Whether numbers are the same; some were seen in float32."""
    rows = [torch.tensor([*map(list, one)], dtype=torch.float32) for one in (ours, theirs)]
    return rows[0].shape == rows[1].shape and torch.equal(*rows)


def _are_same(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(_is_same, ours, theirs))


def difference_of(ours: Any, theirs: Any) -> str:
    """What two DataLoaders have not in common; empty where nothing is seen: settings, length, and some examples."""
    for name, one, other in zip(("batch_size", "drop_last", "sampler"), batching(ours), batching(theirs), strict=True):
        if name != "sampler" and one != other:
            return f"{name} {one} and {other}"
        if type(one).__qualname__ != type(other).__qualname__:
            return f"another {name}"
    if type(ours.dataset).__qualname__ != type(theirs.dataset).__qualname__:
        return "another dataset"
    if not hasattr(ours.dataset, "__getitem__") or len(ours.dataset) != len(theirs.dataset):
        return "no examples by number, or another length"
    for index in sorted({0, len(ours.dataset) // 2, len(ours.dataset) - 1}):
        one, other = (_example(loader, index) for loader in (ours, theirs))
        if len(one) != len(other) or not all(map(_is_same, one, other)):
            return f"example {index}"
    return ""


def _example(loader: Any, index: int) -> list[Any]:
    """An example of a loader's; what its dataset and its transforms draw is the same for all loaders."""
    with OwnDraws(loader, 0)():
        return list(pytree.tree_leaves(loader.dataset[index]))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, int | float):  # a number that is an input
        return one.dim() == 0 and _are_close([[float(one)]], [[other]])
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other) if isinstance(one, bool | int | float | str) else repr(one) == repr(other)
