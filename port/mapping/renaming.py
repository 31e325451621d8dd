"""Renaming: what a person says where the two models' names differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from port.errors import UsageError
from port.mapping.guide import Guide, Layer


class Renaming:
    """Regular expressions and what replaces them, applied to torch's keys one after the other.

    Args:
        rules: pattern → replacement, as `re.sub` takes them. A key that comes out as the other side's torch-like name
            (``layers.0.weight``) or as its own path (``layers.0.kernel``) is matched with it.

    Raises:
        UsageError: a pattern that is no regular expression, or is no text.
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
        """The key under its other name; itself where no rule speaks of it."""
        for pattern, replacement in self.rules:
            try:
                key = pattern.sub(replacement, key)
            except (re.error, IndexError) as error:
                raise UsageError(f"rename: {replacement!r} cannot replace {pattern.pattern!r}: {error}") from error
        return key

    def idle(self, keys: Iterable[str]) -> list[str]:
        """The patterns that match none of the keys, as the patterns before them leave these; a sentence each."""
        current, found = list(keys), []
        for pattern, replacement in self.rules:
            if not any(map(pattern.search, current)):
                found.append(f"rename: {pattern.pattern!r} matches none of torch's names")
            current = [pattern.sub(replacement, key) for key in current]
        return found


def renamed(guide: Guide, renaming: Renaming) -> Guide:
    """A guide whose layers know what their paths are called on the other side, as the renaming has it."""
    if not renaming.rules:
        return guide
    beneath: dict[str, str] = {}  # for each path, one tensor at or beneath it: what happens to it tells the path's name
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
