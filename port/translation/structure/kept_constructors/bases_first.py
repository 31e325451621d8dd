"""Order classes so that base classes come first."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.ir.expr import names_in
from port.translation.structure.class_merge import FoldedClass


def bases_first(classes: Sequence[FoldedClass]) -> list[FoldedClass]:
    """Sort classes so that each follows its base, otherwise keeping their order."""
    names = {made.name for made in classes}
    waiting, ordered = list(classes), list[FoldedClass]()
    while waiting:
        done = {made.name for made in ordered}
        bases = {made.name: {*names_in(made.kept.base)} & names - done if made.kept else set() for made in waiting}
        ready = next(made for made in waiting if not bases[made.name])
        waiting.remove(ready)
        ordered.append(ready)
    return ordered
