"""Whether both sides train the same parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from port.judging.compared import Compared
from port.mapping import TORCH_ONLY

if TYPE_CHECKING:
    from port.translation.translation import Translation

WHAT = "frozen parameters"


@dataclass(frozen=True)
class FrozenAlike(Compared):
    """How many parameters are frozen on a side; ``difference`` is how many are on one side alone."""

    def __str__(self) -> str:
        if self.agrees:
            return f"{self.what}: {self.count}, the same on both sides"
        return f"{self.what}: {self.difference:.0f} of {self.count} trained on one side alone: {self.where}"


def frozen_alike(theirs: dict[str, bool], ours: dict[str, bool], translation: Translation) -> Compared:
    """Compare what either side trains.

    Args:
        theirs: torch's parameters, and whether each is trained.
        ours: Flax's variables, and whether each is.
        translation: whose mapping brings Flax's names to torch's. What it has no home for is not compared.
    """
    apart, count = [], 0
    for entry in translation.mapping.entries:
        trained = [theirs[name] for source in entry.sources if (name := f"{translation.prefix}{source}") in theirs]
        if entry.collection == TORCH_ONLY or not trained:
            continue
        here = [ours.get(target, False) for target in entry.targets]
        if not all(trained) or not all(here):
            count += 1 if entry.is_tied else len(trained)
        if set(trained) != set(here):
            who = "PyTorch" if any(trained) else "the written module"
            apart.append(f"{entry.sources[0]} by {who}")
    return FrozenAlike(WHAT, float(len(apart)), 0.0, ", ".join(apart), count)
