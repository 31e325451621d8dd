"""The moves of a mapping: invertible operations on arrays, as values, on numpy.

A move takes a tuple of arrays and gives a tuple: most take each array for itself, `Split` and `Unstack` make several
of one, `Join`, `Stack` and `Tie` one of several. Each also tells the shapes that it would give, without any array,
and its inverse.
"""

from port.moves.alone import Flip, Fold, Permute, Reshape
from port.moves.move import Arrays, Move, Shape, Shapes
from port.moves.several import Join, Split, Stack, Unstack
from port.moves.shared import Addends, Copy, Sum, Tie
from port.moves.together import Branch, Each, Order

__all__ = [
    "Addends",
    "Arrays",
    "Branch",
    "Copy",
    "Each",
    "Flip",
    "Fold",
    "Join",
    "Move",
    "Order",
    "Permute",
    "Reshape",
    "Shape",
    "Shapes",
    "Split",
    "Stack",
    "Sum",
    "Tie",
    "Unstack",
]
