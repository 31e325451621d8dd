"""Compare the two sides' own weights through the mapping, before anything runs."""

from __future__ import annotations

from port.errors import WeightsMismatch
from port.mapping import TORCH_ONLY, Guide, Mapping
from port.mapping.mapping import gather
from port.mapping.two_sided import spare_of
from port.parity.compare.distance import difference
from port.parity.compare.findings import Finding
from port.parity.compare.gradients import untied
from port.parity.compare.weight_changes import became, equal
from port.parity.sides.calls import Arrays


def unpaired(mapping: Mapping, torch: Guide, flax: Guide) -> list[Finding]:
    """Find parameters that a layer has on one side only.

    Args:
        mapping: from torch's keys to Flax's paths, without them.
        torch: torch's guide.
        flax: Flax's guide.
    """
    entries = [entry for entry in mapping.entries if entry.collection != TORCH_ONLY or entry.optional]
    sides = (
        ("torch", "Flax", torch, {name for entry in entries for name in entry.sources}),
        ("Flax", "torch", flax, {name for entry in entries for name in entry.targets}),
    )
    return [
        Finding("weights", name, float("inf"), 0.0, f"{own}'s layer has it, {other}'s has none")
        for own, other, guide, matched in sides
        for name in spare_of(guide, matched)
    ]


def compare_weights(mapping: Mapping, torch: Arrays, flax: Arrays, tied: dict[str, str]) -> list[Finding]:
    """Find tensors whose values differ between the sides, with how they changed, if that can be seen.

    Args:
        mapping: from torch's keys to Flax's paths.
        torch: torch's state dict.
        flax: Flax's variables by path.
        tied: torch's name → the earlier name of the same tensor.
    """
    findings: list[Finding] = []
    carried: Arrays = {}
    names: dict[str, str] = {}
    for entry in mapping.present(torch):
        if entry.collection == TORCH_ONLY:
            continue
        where = f"{', '.join(entry.sources)} → {', '.join(entry.targets)}"
        if (why := untied(entry, tied)) is not None:
            findings.append(Finding("weights", where, float("inf"), 0.0, why))
        try:
            arrays = entry(gather(entry, torch))
        except WeightsMismatch as error:
            findings.append(Finding("weights", where, float("inf"), 0.0, str(error)))
            continue
        carried.update(zip(entry.targets, arrays, strict=True))
        names.update(dict.fromkeys(entry.targets, ", ".join(entry.sources)))
    for path, array in carried.items():
        own = flax[path]
        if not equal(array, own):
            where = f"{names[path]} → {path}"
            others = {names[other]: values for other, values in carried.items() if other != path}
            findings.append(Finding("weights", where, difference(array, own), 0.0, became(array, own, others).why))
    return findings
