"""Compare which parameters the two sides train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from port.judging import Compared
from port.mapping import TORCH_ONLY

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule

WHAT = "frozen parameters"


@dataclass(frozen=True)
class FrozenAlike(Compared):
    """The number of parameters frozen on either side; ``difference`` counts those frozen on one side only."""

    def __str__(self) -> str:
        if self.agrees:
            return f"{self.what}: {self.count}, the same on both sides"
        return f"{self.what}: {self.difference:.0f} of {self.count} trained on one side only: {self.where}"


def frozen_alike(theirs: dict[str, bool], ours: dict[str, bool], translation: WrittenModule) -> Compared:
    """Compare which parameters the two sides train.

    Args:
        theirs: torch's parameter → whether it is trained.
        ours: Flax's variable → whether it is trained.
        translation: its mapping converts Flax's names to torch's. Tensors without a place in Flax are not compared.
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
