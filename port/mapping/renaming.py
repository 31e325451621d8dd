"""Renames torch's keys where the two models' names differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from port.errors import UsageError
from port.mapping.guide import Guide, Layer


class Renaming:
    """Regular expressions and their replacements, applied to torch's keys one after the other.

    Args:
        rules: pattern → replacement, as in `re.sub`. A key that becomes the other side's torch-like name
            (``layers.0.weight``) or its own path (``layers.0.kernel``) is matched with it.

    Raises:
        UsageError: a pattern is not a regular expression, or not text.
    """

    def __init__(self, rules: Mapping[str, str] | None = None) -> None:
        self.rules = []
        for pattern, replacement in (rules or {}).items():
            if not isinstance(pattern, str) or not isinstance(replacement, str):
                raise UsageError(
                    "rename is pattern → replacement, both text, as in {'features': 'body'}; "
                    f"got {pattern!r} → {replacement!r}"
                )
            try:
                self.rules.append((re.compile(pattern), replacement))
            except re.error as error:
                raise UsageError(f"rename: {pattern!r} is not a regular expression: {error}") from error

    def __call__(self, key: str) -> str:
        """Return the renamed key; the key itself if no rule matches."""
        for pattern, replacement in self.rules:
            try:
                key = pattern.sub(replacement, key)
            except (re.error, IndexError) as error:
                raise UsageError(f"rename: {replacement!r} cannot replace {pattern.pattern!r}: {error}") from error
        return key

    def idle(self, keys: Iterable[str]) -> list[str]:
        """One sentence for each pattern that matches none of the keys, as the patterns before it leave them."""
        current, found = list(keys), []
        for pattern, replacement in self.rules:
            if not any(map(pattern.search, current)):
                found.append(f"rename: {pattern.pattern!r} matches none of torch's names")
            current = [pattern.sub(replacement, key) for key in current]
        return found


def renamed(guide: Guide, renaming: Renaming) -> Guide:
    """Add to a guide's layers their paths on the other side, according to the renaming."""
    if not renaming.rules:
        return guide
    beneath: dict[str, str] = {}  # for each path, a tensor at or below it, whose renaming determines the path's name
    for name in guide.leaves:
        path = name
        while path:
            path = path.rpartition(".")[0]
            beneath.setdefault(path, name)
    layers = tuple(_renamed(layer, beneath.get(layer.path), renaming) for layer in guide.layers)
    return replace(guide, layers=layers)


def _renamed(layer: Layer, name: str | None, renaming: Renaming) -> Layer:
    if name is None:
        return layer
    rest = name[len(layer.path) + 1 :] if layer.path else name
    new = renaming(name)
    if new == rest:
        return replace(layer, twin_path="")
    return replace(layer, twin_path=new[: -len(rest) - 1]) if new.endswith(f".{rest}") else layer
