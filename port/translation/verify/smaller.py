"""Find smaller input lengths, for a proof that does not fit into memory or time at the example's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from port.translation.frontend.input_lengths import Lengths

if TYPE_CHECKING:
    from port.translation.verify.other_lengths import OriginalAndWritten


def smaller(sides: OriginalAndWritten, is_enough: Callable[[Lengths], bool]) -> Lengths | None:
    """Halve the inputs' lengths one by one, the largest first, until they are small enough; None if they never are.

    Args:
        sides: the original and the written module.
        is_enough: whether lengths are small enough.
    """
    sizes = dict(sides.example)
    while not is_enough(sizes):
        halved = (
            sizes | {name: size // 2}
            for name, size in sorted(sizes.items(), key=lambda item: -item[1])
            if size > 1 and sides.runs(sizes | {name: size // 2})
        )
        found = next(halved, None)
        if found is None:
            return None
        sizes = found
    return sizes
