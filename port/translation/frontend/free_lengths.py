"""Find which input lengths can vary, by running the original at other lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from port.translation.frontend.resized_inputs import Axis, Sizes, tensors_of
from port.translation.frontend.trials import Trials

_MOST_TRIALS = 60
"""How many combinations of lengths are tried in search of three that run."""
MOST_ELEMENTS = 100_000
"""Size limit, in elements, of inputs that are tried at multiples of the example's lengths."""


@dataclass(frozen=True)
class FreeLength:
    """A group of axes whose common length can vary.

    Attributes:
        axes: the axes, which have to have the same length.
        size: their length in the example.
        other: another length that the original accepts, at least 2.
    """

    axes: tuple[Axis, ...]
    size: int
    other: int

    def at(self, size: int) -> Sizes:
        """Return the axes, each with this length."""
        return dict.fromkeys(self.axes, size)


def free_lengths(trials: Trials) -> list[FreeLength]:
    """Return the lengths that can vary.

    Each axis is first tried alone. Where that fails it is tried together with other axes of equal length: the same axis
    of all inputs (a batch), the other axes of its tensor (a square image), then all of them.

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
    # An axis of length 1 that runs only at another axis's length is broadcast, not free.
    broadcast = set(lengths.values()) if size == 1 else set()
    for other in other_sizes(size):
        for group in dict.fromkeys(groups if other not in broadcast else ()):
            yield FreeLength(group, size, other)


def other_sizes(size: int) -> list[int]:
    """Return other lengths to try, the most telling first; windows need multiples, and tables have an end.

    A neighbouring length and a distant one come first: ``size // 8``, say, is often equal for both neighbours.
    """
    wanted = (size + 1, size // 2, size + 32 if size >= 32 else size + 4, 2 * size, size + 16, size - 1)
    return [other for other in dict.fromkeys(wanted) if other > 1 and other != size]


def several_sizes(trials: Trials, lengths: Sequence[FreeLength]) -> list[Sizes] | None:
    """Return three sets of lengths that the original accepts, the example's first if none of its lengths is 1.

    The sets differ in every length, and tell the lengths apart. None where no three such sets are found.
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
    """Find the longest size that the original accepts, such as a table's; None if it accepts four times the example's.

    The search runs only on small inputs: tables hold words, seldom pixels.
    """
    step = abs(length.other - length.size)
    for times in (2, 4):
        count = length.size * times // step
        if elements(trials, length.axes) * times > MOST_ELEMENTS or trials.runs(length.at(length.size + count * step)):
            continue
        fewest, most = 0, count  # in steps: the first is accepted, the last is not
        while most - fewest > 1:
            between = (fewest + most) // 2
            taken = not between or trials.runs(length.at(length.size + between * step))
            fewest, most = (between, most) if taken else (fewest, between)
        return length.size + fewest * step
    return None


def elements(trials: Trials, axes: Sequence[Axis]) -> int:
    """Count the elements of the inputs that these axes belong to."""
    tensors = tensors_of(trials.args, trials.kwargs)
    return sum(tensors[number].numel() for number in {number for number, _ in axes})
