"""The conditions (guards) under which a captured run is valid, simplified."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from itertools import chain, compress
from math import gcd

from port.translation.frontend.input_lengths import InputLengths, Lengths, holds
from port.translation.ir.symbolic_lengths import UNSAID, words_in

GLANCE = 80
"""The longest condition, in characters, that is shown without being split up."""
_MOST = 4096
"""The largest length at which a condition on one name is evaluated."""


def conditions(guards: Iterable[str], lengths: InputLengths, example: Lengths) -> tuple[str, ...]:
    """Drop conditions that always hold, and simplify the others.

    Args:
        guards: what torch.export assumed, in terms of the lengths' names.
        lengths: the lengths of the inputs.
        example: the free lengths in the example call.

    Returns:
        The conditions as Python expressions, e.g. ``"t <= 64"``.
    """
    found: dict[str, None] = {}
    of_one: dict[str, list[str]] = {}
    for guard in dict.fromkeys(guards):
        if guard.startswith(f"{UNSAID}("):
            continue  # its lengths are fixed
        names = [name for name in lengths.names if name in words_in(guard)]
        if len(names) == 1:
            of_one.setdefault(names[0], []).append(guard)
        elif not _always(guard, names):
            found.setdefault(guard)
    for guard in [guard for guard in found if len(guard) > GLANCE]:
        if apart := _split_by_length(guard, example):
            del found[guard]
            for name, condition in apart.items():
                of_one.setdefault(name, []).append(condition)
    for name, several in of_one.items():
        found.update(dict.fromkeys(_of_one(several, name)))
    return _without_implied(list(found), example)


def _without_implied(found: list[str], example: Lengths) -> tuple[str, ...]:
    """Drop the conditions that the others imply, longest first."""
    left = list(found)
    for condition in sorted(found, key=len, reverse=True):
        others = [other for other in left if other != condition]
        names = {name for text in (condition, *others) for name in words_in(text) if name in example}
        far = chain.from_iterable(_drawn(sorted(names), most) for most in (1000, *_distant_lengths(condition)))
        tried = chain(near(names, example), far)
        if others and _follows(condition, (sizes for sizes in tried if all(holds(other, sizes) for other in others))):
            left = others
    return tuple(left)


def _follows(condition: str, drawn: Iterator[Lengths]) -> bool:
    """Whether a condition holds for all drawn lengths; False if there are none."""
    first = next(drawn, None)
    return first is not None and all(holds(condition, sizes) for sizes in chain([first], drawn))


def near(names: set[str], example: Lengths) -> Iterator[Lengths]:
    """Yield the example's lengths, then random combinations of small lengths and lengths near the example's."""
    generator = random.Random(2)
    choices = {name: [*range(1, 25), *range(max(1, example[name] - 3), example[name] + 4)] for name in sorted(names)}
    yield {name: example[name] for name in names}
    for _ in range(4000):
        yield {name: generator.choice(sizes) for name, sizes in choices.items()}


def _split_by_length(guard: str, example: Lengths) -> dict[str, str]:
    """Split a condition on several lengths into one on each that together imply it; empty if that is impossible.

    ``n * ((h - 7)//2 + 1) * ((w - 7)//2 + 1) >= 2``, for an array that is not empty, becomes ``h >= 7`` and ``w >= 7``.
    """
    names = example.keys() & words_in(guard)
    plain = {}
    for name in sorted(names):
        condition = _plain([holds(guard, example | {name: size}) for size in range(1, _MOST + 1)], name)
        if condition is None:
            return {}
        if condition:
            plain[name] = condition
    tried = chain(near(names, example), _drawn(sorted(names), _MOST))
    drawn = [sizes for sizes in tried if all(holds(other, sizes) for other in plain.values())]
    return plain if len(drawn) > 1 and all(holds(guard, sizes) for sizes in drawn) else {}


def _of_one(guards: list[str], name: str) -> list[str]:
    """Merge conditions on one length into one simple condition, or simplify each alone."""
    met = [[holds(guard, {name: size}) for size in range(1, _MOST + 1)] for guard in guards]
    # A condition that fails only far above `_MOST` stays in torch.export's form.
    ends = [
        all(own) and not all(holds(guard, {name: size}) for size in _distant_lengths(guard))
        for guard, own in zip(guards, met, strict=True)
    ]
    far = list(compress(guards, ends))
    of_all = [all(several) for several in zip(*met, strict=True)]
    together = _plain(of_all, name)
    if together is not None:
        return [together, *far] if together else far
    if multiples := _multiples(of_all, name):
        return [*multiples, *far]
    alone = [_plain(own, name) for own in met]
    return far + [guard if plain is None else plain for guard, plain in zip(guards, alone, strict=True) if plain != ""]


def _plain(met: list[bool], name: str) -> str | None:
    """Write a condition as ``h >= 7``, ``t <= 64`` or ``w % 4 == 0``; empty if it always holds, None if no form fits.

    Args:
        met: whether each length, from 1 on, meets the condition.
        name: the length's name.
    """
    if all(met):
        return ""
    if not any(met):
        return None
    first, last = met.index(True) + 1, len(met) - met[::-1].index(True)
    if all(met[first - 1 : last]):
        if last == len(met):
            return f"{name} >= {first}"
        if first == last:
            return f"{name} == {first}"
        return f"{name} <= {last}" if first == 1 else f"{first} <= {name} <= {last}"
    if first > 1 and met == [size % first == 0 for size in range(1, len(met) + 1)]:
        return f"{name} % {first} == 0"
    return None


def _multiples(met: list[bool], name: str) -> list[str]:
    """Write a condition as a multiple with bounds, ``w % 4 == 0`` and ``w >= 8``; empty if it is not one."""
    sizes = [size for size, is_met in enumerate(met, 1) if is_met]
    step = gcd(*sizes)
    if len(sizes) < 2 or step == 1 or sizes != [*range(sizes[0], sizes[-1] + 1, step)]:
        return []
    found = [f"{name} >= {sizes[0]}"] if sizes[0] > step else []
    found += [f"{name} <= {sizes[-1]}"] if sizes[-1] + step <= len(met) else []
    return [*found, f"{name} % {step} == 0"]


def _always(guard: str, names: list[str]) -> bool:
    """Whether a condition on several lengths holds for all small, medium and large lengths that are tried."""
    drawn = chain.from_iterable(_drawn(names, most) for most in (3, 40, 1000, *_distant_lengths(guard)))
    return all(holds(guard, sizes) for sizes in drawn)


def _drawn(names: Iterable[str], most: int) -> Iterator[Lengths]:
    """Yield the largest length for all names, then random lengths up to it."""
    generator = random.Random(most)
    yield dict.fromkeys(names, most)
    for _ in range(300):
        yield {name: generator.randint(1, most) for name in names}


def _distant_lengths(guard: str) -> list[int]:
    """Return lengths well above the numbers in a condition."""
    return [4 * number for number in map(int, re.findall(r"\d+", guard)) if _MOST <= 4 * number < 2**31]
