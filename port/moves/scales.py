"""Moves between a quantised weight with its scales and the wide weight that they represent."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Box, Boxes, Restriction, check_boxes, cut, cut_from_one, kept, whole
from port.moves.eight_bits import QUANTISED, bits_of, mapped_to, near, values_of
from port.moves.move import Arrays, Shape, Shapes, count_of, sizes_of

AT_ONCE = 2**24
"""Bytes of the product that are computed at a time, so that the wide intermediate never exists as a whole."""
SAMPLE = 256
"""Elements of a block that a scale is tried on before it is tried on the whole block."""
FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Widen:
    """Widen a quantised weight by its scales: ``weight · scale``, with one scale a block.

    The product is computed in float32 (in float64, for float64) and rounded once.

    Attributes:
        dtype: the result's dtype.
        stored: the quantised weight's dtype.
        blocks: how many elements along each axis share a scale; 0: all of them.
        scales: the stored shape of the scales: one per block, where trailing axes of length one may be missing, or a
            0-d array for a single scale.
        scaled: the scales' dtype.
        factor: multiplies all scales.
    """

    dtype: str
    stored: str
    blocks: Shape
    scales: Shape
    scaled: str = "float32"
    factor: float = 1.0

    def __post_init__(self) -> None:
        sizes_of(self.blocks, "widen")
        known = ((self.dtype, FLOATS), (self.stored, QUANTISED), (self.scaled, (*FLOATS, "float8_e8m0fnu")))
        for name, allowed in known:
            if name not in allowed:
                raise WeightsMismatch(f"widen: unknown {name} here; choose from {', '.join(allowed)}")
        if prod(self.scales) != 1 and len(self.scales) > len(self.blocks):
            raise WeightsMismatch(f"widen: scales of shape {self.scales} have more axes than {len(self.blocks)}")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        weight, scales = arrays
        if (weight.dtype.name, scales.dtype.name) != (self.stored, self.scaled):
            raise WeightsMismatch(
                f"{self} takes {self.stored} and scales of {self.scaled}, got {weight.dtype} and {scales.dtype}"
            )
        return (self._widened(weight, scales, (0,) * weight.ndim),)

    def shapes(self, shapes: Shapes) -> Shapes:
        weight, scales = count_of(self, shapes, 2)
        if len(weight) != len(self.blocks) or scales != self.scales or self._grid() != self._needed(weight):
            needed = self._needed(weight) if len(weight) == len(self.blocks) else f"{len(self.blocks)} axes"
            raise WeightsMismatch(
                f"{self}: a weight of shape {weight} needs scales for {needed} blocks, stored as {self.scales}, got "
                f"shape {scales}"
            )
        return (weight,)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        (box,) = wanted
        if box is None:
            return Restriction((None, None), lambda arrays: ())
        around = tuple(
            range(axis.start // block, -(-axis.stop // block) if axis else axis.start // block) if block else range(1)
            for axis, block in zip(box, self.blocks, strict=True)
        )
        starts = tuple(axis.start % block if block else 0 for axis, block in zip(box, self.blocks, strict=True))
        need = whole(self.scales) if prod(self.scales) == 1 else around[: len(self.scales)]
        return Restriction((box, need), lambda arrays: (self._widened(arrays[0], arrays[1], starts),))

    def _widened(self, weight: np.ndarray, scales: np.ndarray, starts: Shape) -> np.ndarray:
        """Multiply a part of a weight by its blocks' scales; the part begins within the first blocks, at `starts`."""
        result = np.empty(weight.shape, np.dtype(self.dtype))
        if not weight.size:
            return result
        one = (1,) * weight.ndim
        grid = scales.reshape(one if scales.size == 1 else (*scales.shape, *one[scales.ndim :])).astype(self._wide)
        blocks = self.blocks
        while weight.ndim < 2:  # make it one row
            weight, grid, result, blocks, starts = weight[None], grid[None], result[None], (0, *blocks), (0, *starts)
        places = [
            (np.arange(size) + start) // block if block and count > 1 else np.zeros(size, int)
            for size, count, block, start in zip(weight.shape, grid.shape, blocks, starts, strict=True)
        ]
        for lead in np.ndindex(*weight.shape[:-2]):
            of_lead = tuple(own[at] for own, at in zip(places, lead, strict=False))
            self._widen(weight[lead], grid[of_lead], places[-2], places[-1], result[lead])
        return result.reshape(result.shape[-len(self.blocks) :]) if self.blocks else result.reshape(())

    def _widen(
        self, weight: np.ndarray, grid: np.ndarray, rows: np.ndarray, columns: np.ndarray, result: np.ndarray
    ) -> None:
        """Multiply a matrix by its blocks' scales, some rows at a time: at most one block's, where a block has many."""
        most = max(1, AT_ONCE // (self._wide.itemsize * weight.shape[1]))
        of_columns = columns if grid.shape[1] > 1 else columns[:1]
        by_row = len(grid) == len(rows)
        begin = 0
        while begin < len(rows):
            end = len(rows) if by_row else int(np.searchsorted(rows, rows[begin], "right"))
            part = slice(begin, min(end, begin + most))
            product = values_of(weight[part], self._wide)
            product *= grid[rows[part] if by_row else rows[begin : begin + 1]][:, of_columns]
            if self.factor != 1.0:
                product *= self._wide.type(self.factor)
            result[part] = product
            begin = part.stop

    @property
    def _wide(self) -> np.dtype:
        return np.dtype(np.float64 if self.dtype == "float64" else np.float32)

    def _grid(self) -> Shape:
        """The number of blocks along each axis."""
        axes = len(self.blocks)
        return (1,) * axes if prod(self.scales) == 1 else (*self.scales, *(1,) * (axes - len(self.scales)))

    def _needed(self, weight: Shape) -> Shape:
        return tuple(-(-size // block) if block else 1 for size, block in zip(weight, self.blocks, strict=True))

    def inverse(self) -> Narrow:
        return Narrow(self.dtype, self.stored, self.blocks, self.scales, self.scaled, self.factor)

    def __str__(self) -> str:
        return f"widen({self.stored} to {self.dtype}, {_blocks(self.blocks)})"


@dataclass(frozen=True)
class Narrow:
    """Quantise a weight into numbers and scales that reproduce it to the last bit, or raise.

    For each block it tries the scales that map the block's largest value to a number of the quantised dtype, first the
    dtype's largest, as quantisers do, and the neighbours of each scale. Attributes are those of `Widen`.
    """

    dtype: str
    stored: str
    blocks: Shape
    scales: Shape
    scaled: str = "float32"
    factor: float = 1.0

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        (weight,) = arrays
        if weight.dtype.name != self.dtype:
            raise WeightsMismatch(f"{self} takes {self.dtype}, got {weight.dtype}: it was cast since. Keep it wide")
        grid = self.inverse()._grid()
        scales, stored = np.empty(grid, np.dtype(self.scaled)), np.empty(weight.shape, np.dtype(self.stored))
        for block in np.ndindex(*grid):
            box = tuple(
                range(place * size, min((place + 1) * size, total)) if size else range(total)
                for place, size, total in zip(block, self.blocks, weight.shape, strict=True)
            )
            found = self._narrowed(cut(weight, box))
            if found is None:
                raise WeightsMismatch(
                    f"{self}: no scale reproduces the block {block} to the last bit: it was trained, or widened to a "
                    "dtype with too few digits. Keep it wide (--widen on the way back, too), or quantise it again"
                )
            scales[block], cut(stored, box)[...] = found
        return stored, scales.reshape(self.scales)

    def _narrowed(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """A block's scale, and the block divided by it; None if no scale reproduces it."""
        flat = block.reshape(-1)
        magnitudes = np.abs(flat.astype(self._wide))
        largest = float(np.nanmax(magnitudes, initial=0))
        if not np.isfinite(largest):
            return None
        some = flat[:: max(1, flat.size // SAMPLE)]
        if largest:
            some = np.append(some, flat[int(np.nanargmax(magnitudes))])
        for most in mapped_to(self.stored):
            for scale in near(largest / most / self.factor if largest else 1.0, np.dtype(self.scaled)):
                if self._by(some, scale) is not None and (stored := self._by(block, scale)) is not None:
                    return scale, stored
        return None

    def _by(self, values: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
        """Values divided by a scale, in eight bits; None if these do not reproduce the values to the last bit."""
        wide = self._wide.type
        by = wide(scale) * wide(self.factor)
        if not by:
            return None
        divided = values.astype(self._wide) / by
        if self.stored == "int8":
            divided = np.rint(divided).clip(-128, 127)
        stored = divided.astype(np.dtype(self.stored))
        product = stored.astype(self._wide) * wide(scale)
        again = (product if self.factor == 1.0 else product * wide(self.factor)).astype(values.dtype)
        return stored if np.array_equal(bits_of(again), bits_of(values)) else None

    @property
    def _wide(self) -> np.dtype:
        return np.dtype(np.float64 if self.dtype == "float64" else np.float32)

    def shapes(self, shapes: Shapes) -> Shapes:
        (weight,) = count_of(self, shapes, 1)
        self.inverse().shapes((weight, self.scales))
        return weight, self.scales

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        if not kept(wanted):
            return cut_from_one((None,))
        boxes: list[Box | None] = list(wanted)

        def make(arrays: Arrays) -> Arrays:
            return tuple(cut(array, box) for array, box in zip(self(arrays), boxes, strict=True) if box is not None)

        return Restriction((whole(shapes[0]),), make)

    def inverse(self) -> Widen:
        return Widen(self.dtype, self.stored, self.blocks, self.scales, self.scaled, self.factor)

    def __str__(self) -> str:
        return f"narrow({self.dtype} to {self.stored}, {_blocks(self.blocks)})"


def _blocks(blocks: Shape) -> str:
    return f"blocks of {' × '.join(str(block) if block else 'all' for block in blocks)}"
