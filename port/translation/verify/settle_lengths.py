"""Determine which input lengths a translation accepts, by running both sides at other lengths."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, product

from port.translation.frontend.conditions import near
from port.translation.frontend.free_lengths import MOST_ELEMENTS, elements, other_sizes
from port.translation.frontend.input_lengths import InputLengths, Lengths, holds
from port.translation.frontend.resized_inputs import with_first_indices
from port.translation.frontend.trials import Trials
from port.translation.ir.symbolic_lengths import words_in
from port.translation.verify.other_lengths import OriginalAndWritten

_MOST_TRIALS = 40
"""The number of sets of lengths violating a condition at which the original is tried."""
_MOST_ALONE = 5
"""The number of random ones among these that violate no other condition; they come first."""
_LONGEST = 2048
"""The greatest length that is tried for a condition."""
_MOST_CHOSEN = 20_000
"""The number of combinations of lengths that are searched."""
_MOST_TIMES = 2
"""Inputs may have this many times the example's elements, or more if they are small."""


def settled(sides: OriginalAndWritten) -> InputLengths:
    """Return a translation's lengths after running both sides at others.

    A condition from torch.export is dropped if both sides agree where it is violated. A length at which they disagree
    gets a condition: not 1, an upper or lower bound, or fixed to the example's. So do short lengths that only the
    original refuses. The proof then compares both sides at other accepted lengths, with as many lengths changed at once
    as possible.

    Args:
        sides: the original and the written module, which does not check its inputs yet; their ``lengths`` are updated.
    """
    sides.lengths = replace(sides.lengths, conditions=_needed(sides))
    for name in sides.lengths.unguarded:
        _demand(sides, _limits(sides, name))
    _demand(sides, _beginnings(sides))
    ones = _ones(sides)
    trains = sides.trains_at(ones)
    if ones and not sides.agree_at(ones, in_training_too=trains):
        changed = [name for name, size in ones.items() if size != sides.example[name]]
        apart = [name for name in changed if not sides.agree_at(sides.example | {name: 1}, in_training_too=trains)]
        # If each alone agrees, it is the combination that does not.
        _demand(sides, [f"{name} >= 2" for name in apart or changed])
    second = _second(sides)
    while second and not sides.agree_at(second, in_training_too=True):
        # A length at which the sides differ is fixed: an error is better than a wrong result.
        changed = [name for name, size in second.items() if size != sides.example[name]]
        apart = [
            name for name in changed if not sides.agree_at(sides.example | {name: second[name]}, in_training_too=True)
        ]
        _demand(sides, [f"{name} == {sides.example[name]}" for name in apart or changed])
        second = _second(sides)
    return replace(sides.lengths, tried=_tried(second, _ones(sides)))


def tried_lengths(sides: OriginalAndWritten) -> InputLengths:
    """Return the lengths of a translation without running the written module, with others that the original accepts."""
    return replace(sides.lengths, tried=_tried(_second(sides), _ones(sides)))


def _tried(*lengths: Lengths) -> tuple[Lengths, ...]:
    return tuple(sizes for sizes in lengths if sizes)


def _demand(sides: OriginalAndWritten, conditions: list[str]) -> None:
    sides.lengths = replace(sides.lengths, conditions=(*sides.lengths.conditions, *conditions))


def _limits(sides: OriginalAndWritten, name: str) -> list[str]:
    """Find bounds on a length without guards, at which the code branches: far above the example's length, or below.

    This is limited to small inputs; for others the proof's other lengths have to suffice.
    """
    size, found = sides.example[name], []
    count = elements(sides.trials, list(sides.lengths.sizes({name: size})))
    above = [size * times for times in (2, 4) if count * times <= MOST_ELEMENTS]
    for lengths, sign in ((above, "<="), ([size // 2, size // 4, 2], ">=")):
        last = size
        for other in dict.fromkeys(length for length in lengths if 1 < length != size):
            at = sides.example | {name: other}
            if sides.lengths.broken(at) or not sides.takes(at):
                continue
            if not sides.agree_at(at, in_training_too=True):
                found.append(f"{name} {sign} {last}")
                break
            last = other
    return found


def _beginnings(sides: OriginalAndWritten) -> list[str]:
    """Find lower bounds on lengths that only the original enforces.

    torch refuses to pool an empty tensor, for example; JAX returns an empty array, or only padding.
    """
    # An index can be out of range in a shorter tensor, which is not a bound on lengths: use the first indices.
    trials = Trials(sides.trials.module, *with_first_indices(sides.trials.args, sides.trials.kwargs))
    if not trials.runs({}):
        return []
    found = []
    if sides.lengths.broken(sides.example):
        return []
    for name, size in sides.example.items():
        allowed = (length for length in range(1, size + 1) if not sides.lengths.broken(sides.example | {name: length}))
        shortest = next(allowed, size)
        is_taken = partial(_takes_alone, trials, sides, name)
        if shortest == size or is_taken(shortest) or not sides.written_takes(sides.example | {name: shortest}):
            continue
        # The last allowed length is the example's.
        found.append(f"{name} >= {_first(list(allowed), is_taken)}")
    return found


def _takes_alone(trials: Trials, sides: OriginalAndWritten, name: str, length: int) -> bool:
    return trials.runs(sides.lengths.sizes(sides.example | {name: length}))


def _first(lengths: list[int], is_taken: Callable[[int], bool]) -> int:
    """Return the first length from which on all are accepted."""
    return lengths[bisect_left(lengths, True, hi=len(lengths) - 1, key=is_taken)]


def _needed(sides: OriginalAndWritten) -> tuple[str, ...]:
    """Return the conditions that are needed: when violated, the sides were not seen to agree in both modes."""
    left = dict.fromkeys(sides.lengths.conditions)
    needed: set[str] = set()
    for condition in sides.lengths.conditions:
        if condition not in left or condition in needed:
            continue
        unneeded: list[frozenset[str]] = []  # the violated conditions, one set per lengths at which both sides agree
        for sizes in _spread(condition, sides):
            broken = sides.lengths.broken(sizes).intersection(left)
            if not sides.agree_at(sizes, in_training_too=True):
                needed |= {condition} if broken == {condition} else set()
                unneeded = []
                break
            unneeded.append(broken)
        if unneeded:
            left = dict.fromkeys(left.keys() - frozenset.intersection(*unneeded))
    return tuple(text for text in sides.lengths.conditions if text in left)


def _spread(condition: str, sides: OriginalAndWritten) -> Iterator[Lengths]:
    """Yield up to three sets of lengths that violate a condition and that the original accepts.

    These are a first one, the longest and the shortest, since lengths close to the condition may agree by chance. The
    longest and the shortest violate no conditions that the first does not, so a difference is due to this condition.
    """
    names = words_in(condition)

    def reach(sizes: Lengths) -> int:
        its_own = {name: size for name, size in sizes.items() if name in names}
        return sides.lengths.elements(sides.example | its_own)

    tried = list(islice(beyond(condition, sides), _MOST_TRIALS))
    first = next(filter(sides.takes, tried), None)
    if first is None:
        return
    yield first
    alike = [sizes for sizes in tried if sides.lengths.broken(sizes) <= sides.lengths.broken(first)]
    alike.sort(key=reach)
    longer = (sizes for sizes in reversed(alike) if reach(sizes) > reach(first))
    shorter = (sizes for sizes in alike if reach(sizes) < reach(first))
    for sizes in (longer, shorter):
        yield from islice(filter(sides.takes, sizes), 1)


def beyond(condition: str, sides: OriginalAndWritten) -> Iterator[Lengths]:
    """Yield lengths that violate a condition: near the example's, and near and far from numbers in the condition."""
    names = [name for name in sides.lengths.names if name in words_in(condition)]
    numbers = [int(number) for number in re.findall(r"\d+", condition)]
    named = [length for number in numbers for length in (number, number + 1, number - 1, 2 * number, 4 * number)]
    close = [length for length in named if 0 < length < _LONGEST]
    choices = [
        dict.fromkeys((*close, *other_sizes(sides.example[name]), 3, 2, 1, sides.example[name])) for name in names
    ]
    most = max(MOST_ELEMENTS, _MOST_TIMES * sides.lengths.elements(sides.example))
    light = (at for at in near(set(sides.lengths.names), sides.example) if sides.lengths.elements(at) <= most)
    yield from islice((at for at in light if sides.lengths.broken(at) == {condition}), _MOST_ALONE)
    for chosen in islice(product(*choices), _MOST_CHOSEN):
        sizes = sides.example | dict(zip(names, chosen, strict=True))
        if not holds(condition, sizes) and sides.lengths.elements(sizes) <= most:
            yield sizes


def _ones(sides: OriginalAndWritten) -> Lengths:
    """Set as many lengths as possible to 1 at once; empty if none can be."""
    found = dict(sides.example)
    for name in sides.lengths.names:
        if found[name] != 1 and sides.runs(found | {name: 1}):
            found[name] = 1
    return found if found != sides.example else {}


def _second(sides: OriginalAndWritten) -> Lengths:
    """Change as many lengths as possible at once; empty if none can be changed."""
    found = dict(sides.example)
    for name, size in sides.example.items():
        # The nearest are cheapest; shorter ones come first, since formulas may have been inferred from longer ones.
        nearest = sorted(other_sizes(size), key=lambda other: (abs(other - size), other))
        found = next(filter(sides.runs, (found | {name: other} for other in nearest)), found)
    return found if found != sides.example else {}
