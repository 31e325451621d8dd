"""The output dtypes of moves: all moves keep the dtype, except those between a quantised weight and its wide form."""

from __future__ import annotations

import numpy as np

from port.moves.combinators import EachBranch, Order
from port.moves.move import Move, Shapes
from port.moves.scales import Narrow, Widen
from port.moves.single import SingleMove

Dtypes = tuple[np.dtype, ...]


def dtypes_of(moves: tuple[Move, ...], shapes: Shapes, dtypes: Dtypes) -> Dtypes:
    """The dtypes after a sequence of moves.

    Args:
        moves: applied in order.
        shapes: the shapes of the arrays that the first move takes.
        dtypes: the dtypes of these arrays.

    Raises:
        WeightsMismatch: a move cannot take these shapes.
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
            case _:  # one array from several of one dtype, or several from one
                dtypes = dtypes[:1] * len(after)
        shapes = after
    return dtypes


def _of_branches(move: EachBranch, shapes: Shapes, dtypes: Dtypes) -> Dtypes:
    found: Dtypes = ()
    for branch in move.branches:
        found += dtypes_of(branch.moves, shapes[: branch.takes], dtypes[: branch.takes])
        shapes, dtypes = shapes[branch.takes :], dtypes[branch.takes :]
    return found
