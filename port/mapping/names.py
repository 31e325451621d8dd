"""Names of tensors: normal forms, natural order, and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

FEW = 8
"""The largest number of names to compare letter by letter, which is slow; more are compared part by part."""

ENOUGH = 64
"""How many names that share a rare part are compared; nearly all share ``weight``."""


def joined(path: str, name: str) -> str:
    """Join a path and a name; the root's path is empty."""
    return f"{path}.{name}" if path else name


def normal_form(name: str) -> str:
    """Normalize spellings of one name: ``layers_0`` and ``layers.0``, a list inside a container or beside it.

    ``blocks_3.attn.kernel``, ``blocks.3.attn.kernel`` and ``blocks.layers.3.attn.kernel`` have one normal form.
    """
    name = re.sub(r"_(\d+)(?=\.|$)", r".\1", name)
    return re.sub(r"(^|\.)layers\.(?=\d+(\.|$))", r"\1", name)


def natural(name: str) -> list[tuple[int, int | str]]:
    """A sort key for names that compares numbers as numbers: ``layers.2`` before ``layers.10``."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in name.split(".")]


def nearest(name: str, candidates: Collection[str]) -> str:
    """`` (nearest: …)``, or "" if no candidate is near. Fast enough to ask for every name of a large model."""
    if len(candidates) <= FEW:
        scores = {candidate: SequenceMatcher(None, name, candidate).ratio() for candidate in candidates}
    else:
        scores = _shared_parts(name, frozenset(candidates))
    # In order, so that of two that are equally near the answer is always the same.
    found = max(sorted(scores), key=scores.__getitem__, default=None)
    return f" (nearest: {found})" if found is not None and scores[found] >= 0.4 else ""


@dataclass(frozen=True)
class _Parts:
    """Names split into parts: the parts of each, and the names that have a part."""

    of: dict[str, set[str]]
    holders: dict[str, list[str]]


@lru_cache(maxsize=2)
def _taken_apart(names: frozenset[str]) -> _Parts:
    parts = {name: set(normal_form(name).split(".")) for name in sorted(names)}
    holders: dict[str, list[str]] = {}
    for name, held in parts.items():
        for part in held:
            holders.setdefault(part, []).append(name)
    return _Parts(parts, holders)


def _shared_parts(name: str, candidates: frozenset[str]) -> dict[str, float]:
    """Score candidates that share a part with a name, rarest part first, by how much they share, 0 to 1."""
    index = _taken_apart(candidates)
    wanted = set(normal_form(name).split("."))
    near: dict[str, None] = {}
    for holders in sorted((index.holders.get(part, []) for part in wanted), key=len):
        if len(near) < ENOUGH:
            near |= dict.fromkeys(holders)
    return {other: 2 * len(wanted & index.of[other]) / (len(wanted) + len(index.of[other])) for other in near}
