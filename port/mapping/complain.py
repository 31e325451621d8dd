"""Collects everything that is wrong between two models, and raises one error for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from port.errors import NoPair, WeightsMismatch
from port.mapping.guide import Guide, Layer
from port.mapping.names import joined, nearest
from port.mapping.renaming import Renaming
from port.moves import Move
from port.pairs import ParamPair
from port.visible import visible

if TYPE_CHECKING:
    from port.mapping.entry import Entry
    from port.mapping.found import Found


class Complaints:
    """The mismatches between a torch and a Flax model."""

    def __init__(self, torch: Guide, flax: Guide) -> None:
        self.torch, self.flax = torch, flax
        self.lines: dict[str, None] = {}
        self.unmatched: set[str] = set()
        self.without_pair = False

    def two_readings(self, layer: Layer, readings: Iterable[tuple[str, Sequence[Found]]]) -> None:
        """Note a layer that two pairs read differently, when the other side's class is not known."""
        listed = " or ".join(f"{name} ({'; '.join(map(_moves, found))})" for name, found in readings)
        self._note(f"ambiguous: {layer.path}: {listed}; pass the other side's module, or a mapping file")

    def two_homes(self, path: tuple[str, ...], keys: Iterable[tuple[str, ...]]) -> None:
        """Note several torch tensors for one Flax tensor that are neither a stack nor tied."""
        listed = ", ".join(name for names in keys for name in names)
        self._note(f"ambiguous: {', '.join(path)} could be any of {listed}; rename the right one (--mapping)")

    def twice(self, found: Iterable[Found]) -> None:
        """Note torch tensors that match several Flax tensors."""
        homes: dict[str, list[str]] = {}
        for match in found:
            for key in match.torch:
                homes.setdefault(key, []).append(", ".join(match.flax))
        for key, paths in homes.items():
            if len(paths) > 1:
                self._note(f"ambiguous: {key} could go to {' or to '.join(paths)}; rename it to the right one")

    def no_pair(self, torch: Layer | None, flax: Layer, names: tuple[str, ...], paths: tuple[str, ...]) -> None:
        """Note two layers of the same name whose classes no pair connects."""
        kind = torch.kind if torch is not None else "a parameter"
        self.unmatched |= {*names, *paths}
        self.without_pair |= torch is not None and torch.is_library
        self._note(
            f"no pair: {', '.join(names)} of {kind} against {flax.kind} at {flax.path or 'the top'}: "
            "no pair covers both; a mapping file can define the moves, or a pair of your own"
        )

    def built_otherwise(self, torch: Layer, flax: Layer, theirs: tuple[Move, ...], ours: tuple[Move, ...]) -> None:
        """Note two layers of one pair that were built with different arguments."""
        self._note(
            f"built differently: {torch.path} ({torch.kind}) would move by {_listed(theirs)}, "
            f"{flax.path} ({flax.kind}) takes {_listed(ours)}"
        )

    def misshapen(self, line: str) -> None:
        """Note a tensor whose shape differs from its target's."""
        self._note(f"shape: {line}")

    def account(self, entries: Iterable[Entry], renaming: Renaming) -> None:
        """Check that every torch tensor is used once, and every Flax tensor is filled."""
        entries = list(entries)
        done = {name for entry in entries for name in (*entry.sources, *entry.targets)} | self.unmatched
        unexpected = [key for key in self.torch.leaves if key not in done and not self._unknown(self.torch, key)]
        missing = {
            path: self._in_torch(path)
            for path in self.flax.leaves
            if path not in done and not self._optional(path) and not self._unknown(self.flax, path)
        }
        # A buffer that no state dict holds has no source: it keeps its value.
        missing = {
            path: key
            for path, key in missing.items()
            if key not in self.torch.hidden or self.flax.leaves[path].collection == "params"
        }
        new = {key: renaming(key) for key in unexpected}
        for path, key in missing.items():
            place = f" (for {path})" if key != path else ""
            self._note(f"missing: {key}{place}{nearest(key, new.values())}")
        for key in unexpected:
            hint = nearest(key, missing.values()) if new[key] == key else f" (renamed to {new[key]})"
            self._note(f"unexpected: {key}{hint}")
        if self.lines:
            for line in renaming.idle(self.torch.leaves):
                self._note(line)

    def refuse(self) -> None:
        """Raise WeightsMismatch if anything is wrong; NoPair if that includes a layer that no pair covers."""
        if self.lines:
            kind = NoPair if self.without_pair else WeightsMismatch
            raise kind("the two models do not match:\n  " + "\n  ".join(sorted(self.lines)))

    def _unknown(self, guide: Guide, name: str) -> bool:
        """Whether a layer that no pair covers holds this tensor: then that is reported instead."""
        owner = guide.owner(name)
        if owner is None or not owner.is_library:
            return False
        self.without_pair = True
        self._note(f"no pair: {name} belongs to {owner.kind} at {owner.path or 'the top'}, which no pair covers")
        return True

    @cached_property
    def _in_pairs(self) -> dict[str, tuple[Layer, ParamPair]]:
        """Flax path → the layer that holds it and its first pair's entry for it."""
        found: dict[str, tuple[Layer, ParamPair]] = {}
        for layer in self.flax.layers:
            for pair in layer.pairs[:1]:
                for param in layer.params(pair):
                    for name in param.flax_names:
                        found.setdefault(joined(layer.path, name), (layer, param))
        return found

    def _optional(self, path: str) -> bool:
        return path in self._in_pairs and self._in_pairs[path][1].optional

    def _in_torch(self, path: str) -> str:
        """The torch name of a Flax path, which is what users look for."""
        if path not in self._in_pairs:
            return path
        layer, param = self._in_pairs[path]
        return " and ".join(joined(layer.path_elsewhere, name) for name in param.torch_names)

    def _note(self, line: str) -> None:
        self.lines[visible(line)] = None


def _moves(found: Found) -> str:
    return f"{', '.join(found.torch)} → {', '.join(found.flax)} by {_listed(found.moves)}"


def _listed(moves: tuple[Move, ...]) -> str:
    return ", ".join(map(str, moves)) or "no move"
