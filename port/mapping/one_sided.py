"""Builds a mapping from one side alone: to the twin of every layer, under the same names."""

from __future__ import annotations

from dataclasses import replace

from port.errors import NoPair, UsageError
from port.mapping.entry import TORCH_ONLY, Entry
from port.mapping.guide import Guide, Layer
from port.mapping.names import joined
from port.mapping.renaming import Renaming, renamed
from port.mapping.slots import Slot, bare_slots, is_extra_state, slots_of
from port.moves import Tie


def one_sided(guide: Guide, renaming: Renaming | None = None) -> list[Entry]:
    """Build entries from torch's keys to Flax's paths, from one model alone.

    A layer that a pair covers is read by its first pair. A parameter that a user's module, or a container of it, holds
    directly has the same key and the same layout on both sides.

    Args:
        guide: a model's guide, with layers.
        renaming: of torch's keys, if the guide is torch's: the names of the twins.

    Raises:
        NoPair: library layers that no pair covers, or that cannot be moved; all in one message.
        UsageError: a renaming of a layer's own tensors: their names are the twin's.
    """
    guide = renamed(guide, renaming or Renaming())
    free = dict.fromkeys(guide.leaves)
    slots: list[Slot] = []
    for layer in guide.layers:
        if layer.pairs:
            read = list(slots_of(guide, layer, layer.pairs[0], free))
            slots += read
            for slot in read:
                for name in slot.here:
                    del free[name]
                if renaming is not None and guide.side == "torch":
                    _check_named(slot, layer, renaming)
    refuse_unknown(guide, [name for name in free if not is_extra_state(name)])
    for slot in bare_slots(guide, free):
        new = slot.here if renaming is None or slot.torch_only else (renaming(slot.here[0]),)
        slots.append(slot if new == slot.here else replace(slot, there=new))
    entries = [entry_of(guide, slot) for slot in slots if slot.here[0] not in guide.tied]
    order = {name: place for place, name in enumerate(guide.leaves)}
    side = (lambda entry: entry.sources) if guide.side == "torch" else (lambda entry: entry.targets)
    return sorted(entries, key=lambda entry: order[side(entry)[0]])


def tree_of_twins(torch: Guide, flax: Guide, renaming: Renaming) -> list[Entry] | None:
    """Build entries to a bare tree whose paths and shapes are exactly those of the torch model's twins.

    None if they differ: the tree is of a model that was written separately.
    """
    if not torch.layers:
        return None
    try:
        entries = one_sided(torch, renaming)
    except (NoPair, UsageError):
        return None
    places = {
        path: shape
        for entry in entries
        if entry.collection != TORCH_ONLY
        for path, shape in zip(entry.targets, entry.target_shapes(), strict=True)
    }
    return entries if places == {path: leaf.shape for path, leaf in flax.leaves.items()} else None


def _check_named(slot: Slot, layer: Layer, renaming: Renaming) -> None:
    """Check that a layer's renamed key is where its tensor goes: below the layer's new path, or at its Flax path."""
    for key in slot.here:
        local = key[len(layer.path) + 1 :] if layer.path else key
        new = renaming(key)
        if new not in (joined(layer.path_elsewhere, local), *slot.there):
            raise UsageError(
                f"rename: {key} would become {new}, but the twin of {layer.path} ({layer.kind}) has it at "
                f"{', '.join(slot.there)}; rename the path before it, or pass the Flax model too"
            )


def entry_of(guide: Guide, slot: Slot) -> Entry:
    """Make the entry of a slot, from torch to Flax, under the names of its own side."""
    if guide.side == "flax":
        # From Flax's shapes back through the moves: the shapes that torch's side must have.
        targets = tuple(guide.leaves[name].shape for name in slot.here)
        shapes = Entry(slot.there, slot.here, slot.moves).inverse().target_shapes(targets)
        return Entry(slot.there, slot.here, slot.moves, slot.collection, shapes, slot.optional)
    names, moves = slot.here, slot.moves
    others = tuple(name for name, first in guide.tied.items() if first == names[0])
    if others and len(names) == 1:
        names, moves = names + others, (Tie(1 + len(others)), *moves)
    shapes = tuple(guide.leaves[name].shape for name in names)
    return Entry(names, slot.there, moves, slot.collection, shapes, slot.optional)


def refuse_unknown(guide: Guide, names: list[str]) -> None:
    """Raise for tensors of library layers that no pair covers: their layout is not known.

    Raises:
        NoPair: names the layers and their tensors.
    """
    wrong: dict[str, tuple[Layer, list[str]]] = {}
    for name in names:
        owner = guide.owner(name)
        if owner is not None and (owner.is_library or owner.pairs):
            wrong.setdefault(owner.path, (owner, []))[1].append(name)
    if wrong:
        lines = [f"{', '.join(held)}: in {layer.kind}" for layer, held in wrong.values()]
        raise NoPair(
            "no pair covers these, so what corresponds to them is not known:\n  "
            + "\n  ".join(sorted(lines))
            + "\na pair of your own makes them known: port.register(pair), or --pairs on the command line"
        )
