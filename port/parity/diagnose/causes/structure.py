"""Differences in structure, found without a run: a parameter or a tie on one side only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from port.parity.compare.findings import Finding
from port.parity.compare.gradients import untied
from port.parity.compare.mode import Models
from port.parity.diagnose.causes.between import Relation

Placed = tuple[str, str, Relation]
"""torch's path of a layer, Flax's, and the explanation."""


def ties(models: Models) -> Iterator[Placed]:
    """Yield weights that are one tensor in torch and several in Flax: equal at first, they diverge in training."""
    for entry in models.mapping.entries:
        why = untied(entry, models.torch.guide.tied)
        if why is not None:
            torch, flax = (names[-1].rpartition(".")[0] for names in (entry.sources, entry.targets))
            yield torch, flax, Relation("weights-untied", why, "")


def unpaired(models: Models, findings: Sequence[Finding]) -> Iterator[Placed]:
    """Yield a bias, or a norm's scale, that only one side's layer has."""
    names = {finding.where for finding in findings if finding.what == "weights"}
    for match in models.matched.values():
        cites = match.pair.notes if match.pair is not None else ()
        sides = (
            ("missing", "True", match.torch.path, models.torch.guide, "torch's layer has {}, Flax's has none"),
            ("added", "False", match.flax.path, models.flax.guide, "Flax's layer has {}, torch's has none"),
        )
        for verb, value, path, guide, why in sides if match.entries else ():
            for name in sorted(names):
                if name in guide.leaves and name.rpartition(".")[0] == path:
                    what = "bias" if "bias" in name else "norm-scale"
                    remedy = f"Give Flax's layer use_{'bias' if what == 'bias' else 'scale'}={value}."
                    said = Relation(f"{what}-{verb}", why.format(name), remedy, cites)
                    yield match.torch.path, match.flax.path, said
