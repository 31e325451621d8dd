"""Slots: the tensors of one layer as one pair reads them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from port.mapping.entry import TORCH_ONLY
from port.mapping.guide import Guide, Layer
from port.mapping.names import joined
from port.moves import Move
from port.pairs import LayerPair, ParamPair


@dataclass(frozen=True)
class Slot:
    """One tensor, or several that belong together, as a pair reads them.

    Attributes:
        here: the names on the guide's own side.
        there: the names on the other side, as far as this side knows.
        moves: from torch to Flax, whichever side the guide is of.
        collection: Flax's kind of variable.
        optional: whether a checkpoint may lack it.
    """

    here: tuple[str, ...]
    there: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    collection: str = "params"
    optional: bool = False

    @property
    def torch_only(self) -> bool:
        """Whether it has no place in Flax."""
        return self.collection == TORCH_ONLY


def slots_of(guide: Guide, layer: Layer, pair: LayerPair, free: Container[str]) -> Iterator[Slot]:
    """Read a layer's tensors with a pair.

    A pair lists all tensors that such a layer may have; those that this layer lacks are left out.

    Args:
        guide: the layer's side.
        layer: one of its layers.
        pair: one of the layer's pairs.
        free: the names that are not read yet.
    """
    for param in layer.params(pair):
        here = tuple(joined(layer.path, name) for name in _names(param, guide.side))
        if all(name in free for name in here):
            there = tuple(joined(layer.path_elsewhere, name) for name in _names(param, _other(guide.side)))
            yield Slot(here, there, param.moves, param.collection, param.optional)
    if guide.side == "torch":
        for name in pair.torch_only:
            if (key := joined(layer.path, name)) in free:
                yield Slot((key,), (key,), (), TORCH_ONLY, True)


def bare_slots(guide: Guide, free: Iterable[str]) -> Iterator[Slot]:
    """Read parameters that a user's module holds directly: the same name and layout on both sides.

    A torch module's extra state has no place in Flax.
    """
    for name in free:
        owner = guide.owner(name)
        if guide.side == "torch" and is_extra_state(name):
            yield Slot((name,), (name,), (), TORCH_ONLY, True)
        elif owner is None:
            yield Slot((name,), (name,), collection=guide.leaves[name].collection)
        else:
            local = name[len(owner.path) + 1 :] if owner.path else name
            yield Slot((name,), (joined(owner.path_elsewhere, local),), collection=guide.leaves[name].collection)


def is_extra_state(key: str) -> bool:
    """Whether a state dict's key is that of a module's ``get_extra_state``."""
    return key.rpartition(".")[2] == "_extra_state"


def _names(param: ParamPair, side: str) -> tuple[str, ...]:
    return param.torch_names if side == "torch" else param.flax_names


def _other(side: str) -> str:
    return "flax" if side == "torch" else "torch"
