"""Moves: the invertible array operations of a mapping, as values, on numpy.

A move maps a tuple of arrays to a tuple of arrays. Most treat each array separately; `Split` and `Unstack` make
several arrays of one, `Join`, `Stack` and `Tie` make one of several. Each move also has an inverse, and computes its
output shapes without any array.
"""

from port.moves.boxes import Box, Boxes, Restriction
from port.moves.combinators import Branch, EachBranch, Order
from port.moves.dtypes import dtypes_of
from port.moves.merge import Merge
from port.moves.move import Arrays, Move, Shape, Shapes, restriction_of
from port.moves.padding import Pad, Unpad
from port.moves.scales import Narrow, Widen
from port.moves.single import Flip, Fold, Permute, Reshape
from port.moves.split_stack import Join, Split, Stack, Unstack
from port.moves.tie_sum import Addends, Copy, Sum, Tie

__all__ = [
    "Addends",
    "Arrays",
    "Box",
    "Boxes",
    "Branch",
    "Copy",
    "EachBranch",
    "Flip",
    "Fold",
    "Join",
    "Merge",
    "Move",
    "Narrow",
    "Order",
    "Pad",
    "Permute",
    "Reshape",
    "Restriction",
    "Shape",
    "Shapes",
    "Split",
    "Stack",
    "Sum",
    "Tie",
    "Unpad",
    "Unstack",
    "Widen",
    "dtypes_of",
    "restriction_of",
]
