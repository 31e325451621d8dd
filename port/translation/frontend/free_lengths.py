"""Which lengths of the inputs the original leaves free: found out by running it at others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from port.translation.frontend.resized_inputs import Axis, Sizes, tensors_of
from port.translation.frontend.trials import Trials

_MOST_TRIALS = 60
"""Sets of lengths that are tried until three are found."""
MOST_ELEMENTS = 100_000
"""Of inputs that are tried much longer than the example's."""


@dataclass(frozen=True)
class FreeLength:
    """Axes that take another length, all of them the same.

    Attributes:
        axes: that go together.
        size: which they have in the example.
        other: one that the original takes in its place, at least 2.
    """

    axes: tuple[Axis, ...]
    size: int
    other: int

    def at(self, size: int) -> Sizes:
        """These axes at a length."""
        return dict.fromkeys(self.axes, size)


def free_lengths(trials: Trials) -> list[FreeLength]:
    """The lengths that the original takes others for.

    Every axis is tried alone; where that fails, together with axes of the same length: the same axis of all inputs
    (a batch), the other axes of its tensor (a square image), all of them.

    Args:
        trials: runs of the original.
    """
    lengths = {
        (number, axis): size
        for number, tensor in enumerate(tensors_of(trials.args, trials.kwargs))
        for axis, size in enumerate(tensor.shape)
        if size
    }
    found: list[FreeLength] = []
    taken: set[Axis] = set()
    for axis, size in lengths.items():
        if axis in taken:
            continue
        free = next((free for free in _attempts(axis, size, lengths, taken) if trials.runs(free.at(free.other))), None)
        if free is not None:
            found.append(free)
            taken.update(free.axes)
    return found


def _attempts(axis: Axis, size: int, lengths: Sizes, taken: set[Axis]) -> Iterator[FreeLength]:
    alike = [other for other, length in lengths.items() if length == size and other not in taken]
    groups = (
        (axis,),
        tuple(other for other in alike if other[1] == axis[1]),
        tuple(other for other in alike if other[0] == axis[0]),
        tuple(alike),
    )
    # One that fits beside another axis's length alone, as a batch of 1 beside one of 2, is broadcast, and not free.
    broadcast = set(lengths.values()) if size == 1 else set()
    for other in other_sizes(size):
        for group in dict.fromkeys(groups if other not in broadcast else ()):
            yield FreeLength(group, size, other)


def other_sizes(size: int) -> list[int]:
    """Lengths to try in a length's place, those first that cost little: windows are multiples, tables have an end.

    One next to it and one far away come first: ``size // 8`` is often the same next to a length on either side.
    """
    wanted = (size + 1, size // 2, size + 32 if size >= 32 else size + 4, 2 * size, size + 16, size - 1)
    return [other for other in dict.fromkeys(wanted) if other > 1 and other != size]


def several_sizes(trials: Trials, lengths: Sequence[FreeLength]) -> list[Sizes] | None:
    """The example's lengths, and two other sets that differ from it in all of these and that the original takes.

    None where there are no three such sets that tell the lengths apart.
    """
    example = {axis: length.size for length in lengths for axis in length.axes}
    found = [example] if min(example.values()) > 1 else []
    choices = [[*other_sizes(length.size), 3 * length.size] for length in lengths]
    for number, chosen in enumerate(product(*choices)):
        sizes = {axis: size for length, size in zip(lengths, chosen, strict=True) for axis in length.axes}
        known = [tuple(at[length.axes[0]] for at in (*found, sizes)) for length in lengths]
        repeats = any(len({*numbers}) < len(numbers) for numbers in known)
        alike = len(found) == 2 and len({*known}) < len(known)
        if repeats or alike or not trials.runs(sizes):
            continue
        found.append(sizes)
        if len(found) == 3 or number > _MOST_TRIALS:
            break
    return found if len(found) == 3 else None


def longest(trials: Trials, length: FreeLength) -> int | None:
    """Where a length ends for the original, as at the end of a table; None if it does not end at twice or four times.

    That is looked for only where inputs are small: tables are of words, seldom of pixels.
    """
    step = abs(length.other - length.size)
    for times in (2, 4):
        count = length.size * times // step
        if elements(trials, length.axes) * times > MOST_ELEMENTS or trials.runs(length.at(length.size + count * step)):
            continue
        fewest, most = 0, count  # in steps: the first is taken, the last is not
        while most - fewest > 1:
            between = (fewest + most) // 2
            taken = not between or trials.runs(length.at(length.size + between * step))
            fewest, most = (between, most) if taken else (fewest, between)
        return length.size + fewest * step
    return None


def elements(trials: Trials, axes: Sequence[Axis]) -> int:
    """How many numbers the inputs hold that have some axes."""
    tensors = tensors_of(trials.args, trials.kwargs)
    return sum(tensors[number].numel() for number in {number for number, _ in axes})
