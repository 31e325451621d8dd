"""Maps two models that were written separately: by class where classes are known, by name, never by shape."""

from __future__ import annotations

from dataclasses import dataclass

from port.errors import UsageError
from port.mapping.complain import Complaints
from port.mapping.entry import TORCH_ONLY, Entry
from port.mapping.found import Found
from port.mapping.grouping import entries_of
from port.mapping.guide import Guide, Layer
from port.mapping.index import Index
from port.mapping.names import joined
from port.mapping.renaming import Renaming, renamed
from port.mapping.slots import Slot, bare_slots, slots_of
from port.moves import Move, Reshape
from port.pairs import LayerPair


def two_sided(
    torch: Guide,
    flax: Guide,
    *,
    renaming: Renaming | None = None,
    user_entries: tuple[Entry, ...] = (),
    spare: bool = False,
) -> list[Entry]:
    """Build entries from torch's keys to Flax's paths, where both sides' names are known.

    Names are matched exactly first, then by their normal forms. Their moves come from the pair that covers both
    layers' classes; if one side has only names (a checkpoint, a bare tree), from the other side's pair.

    Args:
        torch: a torch module's guide, or a checkpoint's names.
        flax: an nnx or Linen module's guide, or a tree's names; classes must be known on one side at least.
        renaming: of torch's keys.
        user_entries: entries that the user wrote; the tensors in them are settled.
        spare: leave out what the same layer has on one side only: see `port.mapping.between`.

    Raises:
        WeightsMismatch: everything that is missing, unexpected, mis-shaped or has two readings, in one message.
        NoPair: the same, if it includes a layer that no pair covers.
        UsageError: both sides have only names.
    """
    if not torch.layers and not flax.layers:
        raise UsageError(
            "neither side's classes are known, and a convolution and a transposed one look alike in names and shapes: "
            "pass a torch module, an nnx module, or a Linen module with an example input"
        )
    return _Match(renamed(torch, renaming or Renaming()), flax, renaming or Renaming(), user_entries).entries(
        spare=spare
    )


@dataclass(frozen=True)
class _Reading:
    """One layer read by one pair."""

    pair: LayerPair
    found: tuple[Found, ...]

    @property
    def covers(self) -> tuple[int, int]:
        """How many of Flax's tensors it covers, and how many of torch's."""
        at_home = [found for found in self.found if found.collection != TORCH_ONLY]
        return sum(len(found.flax) for found in at_home), sum(len(found.torch) for found in self.found)

    @property
    def effect(self) -> frozenset[object]:
        """Its effect: two pairs may describe the same in different ways."""
        return frozenset((found.torch, found.flax, _busy(found.moves)) for found in self.found)


class _Match:
    def __init__(self, torch: Guide, flax: Guide, renaming: Renaming, user_entries: tuple[Entry, ...]) -> None:
        self.torch, self.flax, self.user_entries = torch, flax, user_entries
        self.complaints = Complaints(torch, flax)
        settled_torch = {name for entry in user_entries for name in entry.sources}
        settled_flax = {name for entry in user_entries for name in entry.targets}
        self.free_torch = [name for name in torch.leaves if name not in settled_torch]
        self.free_flax = [name for name in flax.leaves if name not in settled_flax]
        self.in_torch = Index((renaming(name), name) for name in self.free_torch)
        self.in_flax = Index((style, name) for name in self.free_flax for style in (name, _stripped(flax, name)))
        self.renaming = renaming
        # By the pair that was tried: names of torch layers of another class, and the targets that they would have had.
        self.refused: dict[tuple[str, ...], tuple[str, ...]] = {}

    def entries(self, *, spare: bool) -> list[Entry]:
        lead = self.flax if self.flax.layers else self.torch
        free = dict.fromkeys(self.free_flax if lead is self.flax else self.free_torch)
        found: list[Found] = []
        for layer in lead.layers:
            reading = self._read(lead, layer, free)
            if reading is not None:
                found += reading.found
                for match in reading.found:
                    for name in match.flax if lead is self.flax else match.torch:
                        free.pop(name, None)
        found += self._bare(found)
        entries = [*self.user_entries, *entries_of(found, self.torch, self.flax, self.complaints)]
        if spare:
            entries += self._spare(entries)
        self.complaints.account(entries, self.renaming)
        self.complaints.refuse()
        order = {name: place for place, name in enumerate(self.torch.leaves)}
        return sorted(entries, key=lambda entry: order.get(entry.sources[0], len(order)))

    def _spare(self, entries: list[Entry]) -> list[Entry]:
        """Entries of tensors that torch's layers have and Flax's lack; in the other direction nothing is converted."""
        of_torch = {name for entry in entries for name in entry.sources}
        of_flax = {name for entry in entries for name in entry.targets}
        self.complaints.unmatched |= set(spare_of(self.flax, of_flax))
        return [Entry((name,), (name,), collection=TORCH_ONLY) for name in spare_of(self.torch, of_torch)]

    def _read(self, lead: Guide, layer: Layer, free: dict[str, None]) -> _Reading | None:
        readings = [_Reading(pair, tuple(self._matches(lead, layer, pair, free))) for pair in layer.pairs]
        readings = [reading for reading in readings if reading.found]
        refused, self.refused = self.refused, {}
        if not readings:
            for names, paths in refused.items():
                self.complaints.no_pair(self.torch.owner(names[0]), layer, names, paths)
            return None
        most = max(reading.covers for reading in readings)
        best = [reading for reading in readings if reading.covers == most]
        one_known = not (self.torch.layers and self.flax.layers)
        if one_known and len({reading.effect for reading in best}) > 1:
            self.complaints.two_readings(layer, [(str(reading.pair), reading.found) for reading in best])
        return best[0]

    def _matches(self, lead: Guide, layer: Layer, pair: LayerPair, free: dict[str, None]) -> list[Found]:
        matches = []
        for slot in slots_of(lead, layer, pair, free):
            if slot.torch_only:
                matches.append(Found(slot.here, slot.there, (), TORCH_ONLY, True))
            elif lead is self.flax:
                torch = self.in_torch.find_together(slot.there) or self.in_torch.find_together(slot.here)
                torch = [names for names in torch if self._speaks(pair, names, slot, layer)]
                matches += [Found(names, slot.here, slot.moves, slot.collection, slot.optional) for names in torch]
            else:
                direct = tuple(self.renaming(name) for name in slot.here)
                flax = self.in_flax.find_together(slot.there) or self.in_flax.find_together(direct)
                matches += [Found(slot.here, names, slot.moves, slot.collection, slot.optional) for names in flax]
        if lead is self.flax and matches:
            for name in pair.torch_only:
                for key in self.in_torch.find(joined(layer.path_elsewhere, name)):
                    matches.append(Found((key,), (key,), (), TORCH_ONLY, True))
        return matches

    def _speaks(self, pair: LayerPair, names: tuple[str, ...], slot: Slot, layer: Layer) -> bool:
        """Whether a Flax layer's pair also covers the torch layer with these names, with the same result."""
        if not self.torch.layers:
            return True
        for owner in self.torch.around(names):
            for theirs in slots_of(self.torch, owner, pair, self.torch.leaves) if pair in owner.pairs else ():
                if theirs.here == names:
                    if not _agree(theirs.moves, slot.moves):
                        self.complaints.built_otherwise(owner, layer, theirs.moves, slot.moves)
                    return True
        self.refused[names] = slot.here
        return False

    def _bare(self, found: list[Found]) -> list[Found]:
        """Match parameters that user modules hold directly: the same layout on both sides."""
        used_torch = {name for match in found for name in match.torch}
        used_flax = {name for match in found for name in match.flax}
        matches = []
        for slot in bare_slots(self.torch, (n for n in self.free_torch if n not in used_torch)):
            key = slot.here[0]
            if slot.torch_only:
                matches.append(Found((key,), (key,), (), TORCH_ONLY, True))
            if slot.torch_only or not _is_bare(self.torch, key):
                continue
            for path in self.in_flax.find(self.renaming(key)) or self.in_flax.find(slot.there[0]):
                if path not in used_flax and _is_bare(self.flax, path):
                    matches.append(Found((key,), (path,), (), self.flax.leaves[path].collection))
        return matches


def spare_of(guide: Guide, matched: set[str]) -> list[str]:
    """List biases, and scales of norms, without a counterpart, in layers whose other tensors have one.

    Args:
        guide: one side's guide.
        matched: the names of its tensors that have a counterpart.
    """
    known = {owner.path for name in matched if (owner := guide.owner(name)) is not None and owner.pairs}
    return [
        name
        for name, leaf in guide.leaves.items()
        if name not in matched
        and len(leaf.shape) == 1
        and leaf.collection == "params"
        and (owner := guide.owner(name)) is not None
        and owner.path in known
        and name not in guide.tied
    ]


def _busy(moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """The moves without those that change nothing."""
    return tuple(move for move in moves if not (isinstance(move, Reshape) and move.before == move.after))


def _agree(torch: tuple[Move, ...], flax: tuple[Move, ...]) -> bool:
    """Whether the torch layer's moves for its weights agree with the Flax layer's.

    A torch layer may leave open into how many axes features are split: their order is the same.
    """
    torch, flax = _busy(torch), _busy(flax)
    more = flax[len(torch) :]
    return flax[: len(torch)] == torch and all(isinstance(move, Reshape) for move in more)


def _is_bare(guide: Guide, name: str) -> bool:
    owner = guide.owner(name)
    return owner is None or not (owner.pairs or owner.is_library)


def _stripped(guide: Guide, name: str) -> str:
    """A name in torch's way of writing paths: without the parts that only a Flax container adds."""
    owner = guide.owner(name)
    if owner is None:
        return name
    return joined(owner.path_elsewhere, name[len(owner.path) + 1 :] if owner.path else name)
