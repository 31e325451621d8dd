"""The move that merges a low-rank adapter into the weight that it adapts."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, prod

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Boxes, Restriction, check_boxes
from port.moves.move import Arrays, Move, Shapes, count_of

AT_ONCE = 2**24
"""Bytes of the sum that are computed at a time, so that the wide intermediate never exists as a whole."""


@dataclass(frozen=True)
class Merge:
    """Merge a weight and the two factors of its adapter: ``W + scaling · B A``, as in LoRA.

    W is (out, in, …), A (rank, in, …), B (out, rank, 1, …). The sum is computed in float32, or in float64 if any of
    them is float64, and rounded once, to W's dtype. The move has no inverse.

    Attributes:
        scaling: factor of the product; LoRA's alpha / rank.
    """

    scaling: float

    def __post_init__(self) -> None:
        if not isfinite(self.scaling):
            raise WeightsMismatch(f"merge needs a finite scaling, got {self.scaling}")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        weight, first, second = map(np.asarray, arrays)
        if weight.dtype.kind in "biu" or weight.dtype.itemsize == 1:
            raise WeightsMismatch(f"{self}: the weight is {weight.dtype}, quantised: widen it by its scale first")
        wide = np.dtype(np.float64 if np.float64 in [array.dtype for array in arrays] else np.float32)
        down = first.reshape(len(first), prod(first.shape[1:])).astype(wide, copy=False)  # (rank, in)
        up = second.reshape(second.shape[:2]).astype(wide, copy=False)  # (out, rank)
        merged = np.empty(weight.shape, weight.dtype)
        rows = max(1, AT_ONCE // max(1, wide.itemsize * down.shape[1]))
        for begin in range(0, len(weight), rows):
            part = slice(begin, begin + rows)
            product = (up[part] @ down).reshape(weight[part].shape)
            product *= wide.type(self.scaling)
            product += weight[part].astype(wide, copy=False)
            merged[part] = product
        return (merged,)

    def shapes(self, shapes: Shapes) -> Shapes:
        weight, first, second = count_of(self, shapes, 3)
        if len(weight) < 2 or len(first) != len(weight) or len(second) != len(weight):
            raise WeightsMismatch(f"{self} takes a weight and its factors, of equal rank, two or more; got {shapes}")
        rank = first[0]
        if first[1:] != weight[1:] or second[0] != weight[0] or prod(second[2:]) != 1:
            raise WeightsMismatch(
                f"{self}: the factors A {first} and B {second} are of another weight than {weight}: A is to be (rank, "
                "in), B (out, rank)"
            )
        if second[1] != rank:
            raise WeightsMismatch(f"{self}: A {first} has rank {rank}, and B {second} has rank {second[1]}")
        return (weight,)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        (box,) = wanted
        if box is None:
            return Restriction((None, None, None), lambda arrays: ())
        rank = range(shapes[1][0])
        return Restriction((box, (rank, *box[1:]), (box[0], rank, *(range(1) for _ in box[2:]))), self)

    def inverse(self) -> Move:
        raise WeightsMismatch(
            f"{self} has no inverse: an adapter cannot be separated from the merged weight. Keep the adapter file"
        )

    def __str__(self) -> str:
        return f"merge(W + {self.scaling:g} B A)"
