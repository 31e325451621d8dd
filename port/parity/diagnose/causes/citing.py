"""Find the note that describes a cause: notes name kinds of causes, and pairs cite notes."""

from __future__ import annotations

from functools import cache

from port.pairs import LayerPair
from port.pairs.notes import NOTES
from port.pairs.ops import OPERATORS, OperatorPair
from port.pairs.registered import registered


def note_of(kind: str, cites: tuple[str, ...] = ()) -> str:
    """Return the id of the note that names a kind of cause; "" if none does.

    Args:
        kind: the cause's stable name.
        cites: the ids that the relevant pairs cite, which distinguish a convolution's kernel from a linear layer's. If
            several notes name the kind, a cited one is returned.
    """
    naming = _naming(kind)
    if len(naming) == 1:
        return naming[0]
    return next((id for id in naming if id in cites), "")


def cited_by(operation: str, pair: LayerPair | None) -> tuple[str, ...]:
    """Return the ids cited by the pairs of a torch function and of the layer that called it.

    Args:
        operation: the function's name, without its module.
        pair: the layer's pair, if it has one.
    """
    return (*_cited_by_operators(operation), *(pair.notes if pair is not None else ()))


@cache
def _naming(kind: str) -> tuple[str, ...]:
    return tuple(note.id for note in NOTES if kind in note.causes)


def _cited_by_operators(operation: str) -> tuple[str, ...]:
    named = [pair for pair in (*registered(OperatorPair), *OPERATORS) if pair.torch.rpartition(".")[2] == operation]
    return tuple(dict.fromkeys(id for pair in named for id in pair.notes))
