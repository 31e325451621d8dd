"""Widens eight-bit weights by their scales: ``weight · scale``, a tensor at a time, or a part of one.

Supported are the layouts of DeepSeek-V3 and transformers (``weight`` of float8 and ``weight_scale_inv``, which
multiplies in spite of its name: one scale, or one per block of 128 × 128), of compressed-tensors (``weight_scale``:
one, one per row, block or group) and of bitsandbytes (``weight`` of int8 and ``SCB``, each row's largest value).
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import replace
from pathlib import Path

import numpy as np

from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry, Mapping
from port.moves import Branch, EachBranch, Move, Shape, Widen
from port.moves.eight_bits import QUANTISED, blocks_of
from port.weights.made_tensors import made
from port.weights.quantization_config import quantization_config, said_blocks
from port.weights.sources import Source

MULTIPLIES = ("_scale_inv", "_scale")
"""Endings of a scale's name, after its weight's."""
ROWS_LARGEST, BY_127 = "SCB", 1 / 127
OF_ACTIVATIONS = (
    *("input_scale", "output_scale", "activation_scale", "input_scale_ub", "input_zero_point", "output_zero_point"),
    *("k_scale", "v_scale", "q_scale", "weight_format"),
)
"""Tensors beside quantised weights that do not affect them."""
ZERO_POINT = "weight_zero_point"
NOT_READ = {
    ZERO_POINT: "weights that are not around zero",
    "weight_packed": "several weights in one number",
    "weight_scale_2": "scales that have scales",
}


def widened(source: Source, dtype: str, said: Shape | None = None) -> Source:
    """Widen each quantised weight of torch's by its scale; the result has no scales.

    Args:
        source: torch's state dict.
        dtype: the dtype of the widened weights; the others keep their own.
        said: the blocks that share a scale, if they are defined.

    Raises:
        WeightsMismatch: weights without scales, scales without weights, shapes that do not match; all of them.
        UsageError: nothing is quantised.
    """
    entries = widening_entries(source, dtype, said)
    beside = {
        name: "scales what goes in or out, not the weight"
        for name in source
        if name.rpartition(".")[2] in OF_ACTIVATIONS
    }
    beside |= {name: "zero points, all of them zero" for name in source if name.endswith(ZERO_POINT)}
    used = beside.keys() | {entry.sources[1] for entry in entries.values()}
    result = made(source, entries, [name for name in source if name not in used])
    result.left_out |= beside
    return result


def blocks_said_beside(source: Source) -> Shape | None:
    """The blocks that share a scale, from the ``config.json`` beside a checkpoint; None if it does not define them."""
    return said_blocks(quantization_config(Path(source.origin).parent))


def widening_entries(source: Source, dtype: str, said: Shape | None = None) -> dict[str, Entry]:
    """The entry that widens each quantised weight, from itself and its scale."""
    if source.is_flax:
        raise UsageError(f"{source.origin}: these are Flax variables; only torch's weights can be widened")
    found: dict[str, Entry] = {}
    wrong: list[str] = []
    for name in source:
        end = next((end for end in NOT_READ if name.endswith(end)), None)
        if end is not None and not (end == ZERO_POINT and _is_zero(name, source)):
            wrong.append(f"{name}: {NOT_READ[end]} are not read")
        weight = _weight_of(name, source)
        if weight is None:
            continue
        if weight not in source:
            wrong.append(f"missing: {weight}, whose scale {name} is there")
        elif weight in found:
            wrong.append(f"unexpected: {name}: {weight} has a scale already, {found[weight].sources[1]}")
        else:
            try:
                found[weight] = _entry(weight, name, source, dtype, said)
            except WeightsMismatch as error:
                wrong.append(f"{weight}, {name}: {error}")
    scaled = {name: weight for name in source if (weight := _weight_of(name, source)) is not None}
    known = {*scaled, *scaled.values()}
    for name, info in source.tensors.items():
        if info.dtype.name.startswith("float8_e") and name not in known and not name.endswith(ZERO_POINT):
            wrong.append(f"missing: the scale of {name}, which is {info.dtype}")
    if wrong:
        raise WeightsMismatch(f"{source.origin}: the quantised weights cannot be widened:\n  " + "\n  ".join(wrong))
    if not found:
        raise UsageError(
            f"{source.origin} has no eight-bit weights with scales (weight and weight_scale_inv, weight_scale or "
            "SCB): there is nothing to widen"
        )
    return found


def scales_in(source: Source) -> list[str]:
    """The names of the tensors that are scales of others."""
    return [name for name in source if (weight := _weight_of(name, source)) is not None and weight in source]


def with_scales(mapping: Mapping, entries: Table[str, Entry]) -> Mapping:
    """Convert a mapping of widened weights to one of the quantised weights and their scales.

    Args:
        mapping: from torch's keys, with widened weights among them.
        entries: from `widening_entries`.
    """
    return Mapping(tuple(_with_scales(entry, entries) for entry in mapping.entries), mapping.kept)


def without_scales(mapping: Mapping) -> Mapping:
    """The inverse of `with_scales`."""
    return Mapping(tuple(map(_without_scales, mapping.entries)), mapping.kept)


def _with_scales(entry: Entry, entries: Table[str, Entry]) -> Entry:
    if not any(source in entries for source in entry.sources):
        return entry
    own = [entries.get(source, Entry((source,), (source,))) for source in entry.sources]
    branches = tuple(Branch(len(each.sources), each.moves, 1) for each in own)
    first: tuple[Move, ...] = branches[0].moves if len(branches) == 1 else (EachBranch(branches),)
    shapes = None
    if entry.shapes is not None and all(each.shapes is not None or len(each.sources) == 1 for each in own):
        shapes = tuple(
            shape for each, plain in zip(own, entry.shapes, strict=True) for shape in (each.shapes or (plain,))
        )
    return replace(
        entry, sources=tuple(name for each in own for name in each.sources), moves=(*first, *entry.moves), shapes=shapes
    )


def _without_scales(entry: Entry) -> Entry:
    if not entry.changes_dtype:
        return entry
    first, *others = entry.moves
    branches = first.branches if isinstance(first, EachBranch) else (Branch(2, (first,), 1),)
    kept, at = [], 0
    for branch in branches:
        kept.append(at)
        at += branch.takes
    return replace(
        entry,
        sources=tuple(entry.sources[place] for place in kept),
        moves=tuple(others),
        shapes=None if entry.shapes is None else tuple(entry.shapes[place] for place in kept),
    )


def _weight_of(name: str, source: Source) -> str | None:
    """The weight that a tensor is the scale of; None if it is not a scale."""
    path, _, last = name.rpartition(".")
    if last == ROWS_LARGEST:
        return f"{path}.weight" if path else "weight"
    if last in OF_ACTIVATIONS:
        return None
    for end in MULTIPLIES:
        weight = name.removesuffix(end)
        if weight != name and (weight.endswith("weight") or weight in source):
            return weight
    return None


def _is_zero(name: str, source: Source) -> bool:
    return not source[name].astype(np.float32).any()


def _entry(weight: str, scale: str, source: Source, dtype: str, said: Shape | None) -> Entry:
    info, scale_info = source.tensors[weight], source.tensors[scale]
    if info.dtype.name not in QUANTISED:
        raise WeightsMismatch(f"the weight is {info.dtype}, not an eight-bit number with a scale")
    is_largest = scale.endswith(ROWS_LARGEST)
    blocks = blocks_of(info.shape, scale_info.shape, None if is_largest else said)
    factor = BY_127 if is_largest else 1.0
    move = Widen(dtype, info.dtype.name, blocks, scale_info.shape, scale_info.dtype.name, factor)
    return Entry((weight, scale), (weight,), (move,), shapes=(info.shape, scale_info.shape))
