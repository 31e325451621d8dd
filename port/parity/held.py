"""The two sides' own weights, compared through the mapping, before anything is run."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from port.errors import WeightsMismatch
from port.mapping import TORCH_ONLY, Mapping
from port.mapping.mapping import gather
from port.parity.calls import Arrays
from port.parity.distance import difference
from port.parity.gradients import untied
from port.parity.report import Finding


def compare_weights(mapping: Mapping, torch: Arrays, flax: Arrays, tied: dict[str, str]) -> list[Finding]:
    """Every tensor whose values are not the same on both sides, with what became of it, where that can be seen.

    Args:
        mapping: from torch's keys to Flax's paths.
        torch: torch's state dict.
        flax: Flax's variables by path.
        tied: torch's name → the earlier name of the same tensor.
    """
    findings: list[Finding] = []
    carried: Arrays = {}
    names: dict[str, str] = {}
    for entry in mapping.present(torch):
        if entry.collection == TORCH_ONLY:
            continue
        where = f"{', '.join(entry.sources)} → {', '.join(entry.targets)}"
        if (why := untied(entry, tied)) is not None:
            findings.append(Finding("weights", where, float("inf"), 0.0, why))
        try:
            arrays = entry(gather(entry, torch))
        except WeightsMismatch as error:
            findings.append(Finding("weights", where, float("inf"), 0.0, str(error)))
            continue
        carried.update(zip(entry.targets, arrays, strict=True))
        names.update(dict.fromkeys(entry.targets, ", ".join(entry.sources)))
    for path, array in carried.items():
        own = flax[path]
        if not _equal(array, own):
            where = f"{names[path]} → {path}"
            why = _what_became(path, array, own, carried, names)
            findings.append(Finding("weights", where, difference(array, own), 0.0, why))
    return findings


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same values, whatever their dtypes."""
    return a.shape == b.shape and bool(np.array_equal(_wide(a), _wide(b), equal_nan=True))


def _wide(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iub":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _what_became(path: str, array: np.ndarray, own: np.ndarray, carried: Arrays, names: dict[str, str]) -> str:
    """What Flax's values are, if not torch's of that name."""
    for axes in permutations(range(array.ndim)):
        if axes != tuple(range(array.ndim)) and _equal(array.transpose(axes), own):
            return "it is transposed" if array.ndim == 2 else f"its axes are in another order, {axes}"
    for other, values in carried.items():
        if other != path and values.size > 1 and np.ptp(_wide(values)) > 0 and _equal(values, own):
            return f"it holds the values of {names[other]}"
    for dtype in _narrower(array):
        if _equal(array.astype(dtype), own):
            return f"it was rounded to {np.dtype(dtype)}"
    if array.shape == own.shape and array.size > 1:
        if _equal(np.sort(_wide(array), axis=None), np.sort(_wide(own), axis=None)):
            return "it has the same values in another order"
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(_wide(array).astype(np.float64) - _wide(own)), nan=np.inf)
        count = int(np.count_nonzero(apart))
        place = tuple(int(index) for index in np.unravel_index(int(np.argmax(apart)), apart.shape))
        return f"{count} of its {array.size} values, most at {place}: torch {array[place]}, Flax {own[place]}"
    return ""


def _narrower(array: np.ndarray) -> list[np.dtype]:
    import ml_dtypes

    narrower = [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)]
    return [dtype for dtype in narrower if dtype.itemsize < array.dtype.itemsize] if array.dtype.kind == "f" else []
