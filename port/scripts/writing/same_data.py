"""Check that the data of a written original.py, made only by lines copied from the script, equals the script's."""

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
"""How many generator states to try for a batch."""


class DrawnBehind(UsageError):
    """The copied lines make other data, for example because the script draws something before it."""


class DrawnInLoop(UsageError):
    """The batches are drawn with the shared global generators."""


@contextmanager
def own_module(file: Path, line: str) -> Iterator[Any]:
    """Import original.py; errors within are attributed to a line of the script.

    Raises:
        UsageError: it fails.
    """
    try:
        yield import_file(file, NAME)
    except (Exception, SystemExit) as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise UsageError(
            f"{line}: the lines before it do not suffice to make the data ({type(error).__name__}: {first}): write the "
            "loop around train_step, with the script's data"
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
    """Check that original.py gives the script's loaders, and the numbers of its first updates.

    Raises:
        DrawnBehind: the data differs.
        UsageError: the numbers differ, or it fails.
    """
    line = place_of((training["constructed"] or training)["where"])
    with own_module(file, line) as module:
        made, _, *inputs = getattr(module, function)(module.options().parse_args(sys.argv[1:]))
        own_numbers = inputs.pop()(len(made["training"])) if loop.numbers else ()
        found_numbers = [[*one] if isinstance(one, tuple) else [one] for one in islice(own_numbers, len(numbers))]
        for one in inputs:
            one(next(iter(made["training"])))
        pairs = {"training": loaders[training["name"]]}
        if evaluation is not None:
            pairs["evaluation"] = loaders[evaluation["name"]]
        # With several processes, rank 0's: `WholeBatches` holds the loaders of all.
        ours = {role: getattr(made[role], "loaders", [made[role]])[0] for role in pairs}
        found = {role: difference_of(theirs, ours[role]) for role, theirs in pairs.items()}
    if not _are_close(found_numbers, numbers):
        raise UsageError(
            f"{line}: the lines of the loop alone give the updates the numbers {found_numbers}, but the script's are "
            f"{[*map(list, numbers)]}: compute them by hand, and call train_step with them"
        )
    for role, difference in found.items():
        if difference:
            raise DrawnBehind(
                f"{line}: its lines alone make other data for {loop.loaders[role]} ({difference}), perhaps because "
                "the script draws something before it: give it a separate seeded generator, or save it, and observe "
                "it again"
            )


def check_own_batches(
    file: Path, function: str, observed: Sequence[Sequence[torch.Tensor]], where: Any, rate: float | None
) -> None:
    """Check that the first batches and the first rate of original.py are the script's.

    Args:
        file: original.py.
        function: the function of original.py that makes the data.
        observed: each step's parts of a batch, from one pass.
        where: the script's line.
        rate: the first learning rate, if the script sets it by hand.

    Raises:
        DrawnInLoop: they are drawn.
        UsageError: they differ, or it fails.
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
            f"{line}: its lines alone give the first learning rate {first}, but the script's is {rate}: "
            "compute it before each call of train_step"
        )
    if not all(map(_are_same, *passes)):
        raise DrawnInLoop(f"{line}: its batches are drawn in the loop: draw them from a separate generator")
    ours, theirs = ([[part.reshape(-1) for part in batch] for batch in one] for one in (observed, passes[0]))
    if not theirs or not all(map(_are_same, ours, theirs)):  # a pass may be shorter than what was watched
        raise UsageError(f"{line}: its lines alone make other batches: write the loop by hand")


@dataclass(frozen=True)
class SeenBatch:
    """A batch that a loop over steps has drawn.

    Attributes:
        number: its index, from 0.
        parts: the batch's parts.
        before: functions that restore the generators' states from before it was used, the latest first.
    """

    number: int
    parts: Sequence[torch.Tensor]
    before: Sequence[Callable[[], None]]


def check_steps(file: Path, function: str, seen: Sequence[SeenBatch], rates: Sequence[float], where: Any) -> None:
    """Check that original.py's loop over steps draws the script's batches, and has its rates.

    Args:
        file: original.py.
        function: the function of original.py that makes the data.
        seen: the watched batches.
        rates: the rates of the watched updates, if the script sets them by hand.
        where: the script's line.

    Raises:
        DrawnBehind: the batches differ.
        UsageError: the rates differ, or it fails.
    """
    line = place_of(where)
    with own_module(file, line) as module:

        def made() -> tuple[Any, Any]:
            found: tuple[Any, Any] = getattr(module, function)(module.options().parse_args(sys.argv[1:]))
            return found

        own_rates = [one[1] for one in islice((one for one in made()[1] if one[0] == "update"), len(rates))]
        others = [one for one in seen if not any(_are_same(one.parts, found) for found in _drawn_again(one, made))]
    if own_rates != list(rates):
        raise UsageError(
            f"{line}: its lines alone give the learning rates {own_rates}, but the script's are {[*rates]}: "
            "compute it before each call of train_step"
        )
    if others:
        raise DrawnBehind(
            f"{line}: its lines alone make other batches, perhaps because the script draws something before the data: "
            "give it a separate seeded generator, or save it, and observe it again"
        )


def _drawn_again(seen: SeenBatch, made: Callable[[], tuple[Any, Any]]) -> Iterator[Sequence[Any]]:
    """The batch that original.py draws, from each of the generators' states."""
    for put_back in seen.before[:MOST_STATES]:
        batches = iter(made()[0]["training"])
        for _ in range(seen.number):
            next(batches, None)
        put_back()
        yield [*next(batches, ())]


def _are_close(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> bool:
    """Whether numbers are equal; some were seen in float32."""
    rows = [torch.tensor([*map(list, one)], dtype=torch.float32) for one in (ours, theirs)]
    return rows[0].shape == rows[1].shape and torch.equal(*rows)


def _are_same(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(_is_same, ours, theirs))


def difference_of(ours: Any, theirs: Any) -> str:
    """The difference between two DataLoaders in settings, length and some examples; empty if none is found."""
    for name, one, other in zip(("batch_size", "drop_last", "sampler"), batching(ours), batching(theirs), strict=True):
        if name != "sampler" and one != other:
            return f"{name} {one} and {other}"
        if type(one).__qualname__ != type(other).__qualname__:
            return f"another {name}"
    if type(ours.dataset).__qualname__ != type(theirs.dataset).__qualname__:
        return "another dataset"
    if not hasattr(ours.dataset, "__getitem__") or len(ours.dataset) != len(theirs.dataset):
        return "no examples by index, or another length"
    for index in sorted({0, len(ours.dataset) // 2, len(ours.dataset) - 1}):
        one, other = (_example(loader, index) for loader in (ours, theirs))
        if len(one) != len(other) or not all(map(_is_same, one, other)):
            return f"example {index}"
    return ""


def _example(loader: Any, index: int) -> list[Any]:
    """An example from a loader; its dataset and transforms draw the same for all loaders."""
    with OwnDraws(loader, 0)():
        return list(pytree.tree_leaves(loader.dataset[index]))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, int | float):  # a number that is an input
        return one.dim() == 0 and _are_close([[float(one)]], [[other]])
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other) if isinstance(one, bool | int | float | str) else repr(one) == repr(other)
