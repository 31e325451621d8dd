"""Which dtypes moves give: all keep what they are given, but those of a quantised weight and its scales."""

from __future__ import annotations

import numpy as np

from port.moves.combinators import EachBranch, Order
from port.moves.move import Move, Shapes
from port.moves.scales import Narrow, Widen
from port.moves.single import SingleMove

Dtypes = tuple[np.dtype, ...]


def dtypes_of(moves: tuple[Move, ...], shapes: Shapes, dtypes: Dtypes) -> Dtypes:
    """The dtypes after moves, one after the other.

    Args:
        moves: as said.
        shapes: of the arrays that the first takes.
        dtypes: theirs.

    Raises:
        WeightsMismatch: shapes that a move cannot take.
    """
    for move in moves:
        after = move.shapes(shapes)
        match move:
            case Widen():
                dtypes = (np.dtype(move.dtype),)
            case Narrow():
                dtypes = (np.dtype(move.stored), np.dtype(move.scaled))
            case Order():
                dtypes = tuple(dtypes[place] for place in move.places)
            case EachBranch():
                dtypes = _of_branches(move, shapes, dtypes)
            case SingleMove():
                pass
            case _:  # one of several of one dtype, or several of one
                dtypes = dtypes[:1] * len(after)
        shapes = after
    return dtypes


def _of_branches(move: EachBranch, shapes: Shapes, dtypes: Dtypes) -> Dtypes:
    found: Dtypes = ()
    for branch in move.branches:
        found += dtypes_of(branch.moves, shapes[: branch.takes], dtypes[: branch.takes])
        shapes, dtypes = shapes[branch.takes :], dtypes[branch.takes :]
    return found
