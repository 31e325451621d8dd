"""torch's units: its layers, the projections inside its attention, and the cells inside its recurrent layers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from port.mapping import Guide
from port.matching.units import Unit, units_of
from port.pairs import all_pairs, name_of

_HEADS = ("num_heads", "n_head", "n_heads", "num_attention_heads", "heads", "nhead")
"""Names of the attribute with the number of attention heads."""

_CELL = re.compile(r"(weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)(_l\d+(?:_reverse)?)")


def torch_units(guide: Guide, modules: dict[str, Any], *, tied: bool = False) -> list[Unit]:
    """List torch's units, outer ones with their parts.

    Args:
        guide: the model's guide.
        modules: its modules by path.
        tied: as in `units_of`.
    """
    return [_with_heads(unit, modules) for unit in units_of(guide, tied=tied)]


def _with_heads(unit: Unit, modules: dict[str, Any]) -> Unit:
    parts = tuple(_with_heads(part, modules) for part in unit.parts)
    unit = replace(unit, parts=parts, heads=_heads(unit.path, modules))
    if unit.kind == "torch.nn.MultiheadAttention" or "in_proj_weight" in unit.names:
        return replace(unit, parts=_projections(unit))
    if any(_CELL.fullmatch(name) for name in unit.names):
        return replace(unit, parts=_cells(unit, modules[unit.path]))
    return unit


def _heads(path: str, modules: dict[str, Any]) -> int | None:
    for _ in range(3):
        for name in _HEADS:
            if isinstance(heads := getattr(modules.get(path), name, None), int):
                return heads
        path = path.rpartition(".")[0]
    return None


def _projections(unit: Unit) -> tuple[Unit, ...]:
    """The linear layers that attention calls as functions: only the attention's call is observed."""
    parts = []
    for names, seen in (
        ({name: full for name, full in unit.names.items() if name.startswith("in_proj")}, (unit.path, None)),
        ({name: full for name, full in unit.names.items() if name.startswith("out_proj.")}, (None, unit.path)),
    ):
        if names:
            local = {name.rpartition(".")[2]: full for name, full in names.items()}
            shapes = {name.rpartition(".")[2]: unit.shapes[name] for name in names}
            path = next(iter(names.values())).rpartition(".")[0]
            pairs = unit.pairs
            if seen[1] is not None:
                pairs = tuple(pair for pair in all_pairs() if name_of(pair.torch) == "torch.nn.Linear")
            parts.append(
                replace(unit, path=path, names=local, shapes=shapes, family="linear", pairs=pairs, parts=(), seen=seen)
            )
    rest = {name: full for name, full in unit.names.items() if not name.startswith(("in_proj", "out_proj."))}
    own = replace(unit, pairs=(), parts=(), family="own", seen=(None, None))
    parts += [replace(own, names={name: full}, shapes={name: unit.shapes[name]}) for name, full in rest.items()]
    return tuple(parts)


def _cells(unit: Unit, module: Any) -> tuple[Unit, ...]:
    """One cell for each layer and direction; the first one has the layer's input, the last one its output."""
    cells: dict[str, dict[str, str]] = {}
    for name in unit.names:
        if found := _CELL.fullmatch(name):
            cells.setdefault(found[2], {})[found[1]] = name
    kind = f"torch.nn.{module.mode.partition('_')[0]}Cell"
    pairs = tuple(pair for pair in all_pairs() if name_of(pair.torch) == kind and pair.fits_torch(module))
    return tuple(
        replace(
            unit,
            kind=kind,
            names={local: unit.names[name] for local, name in names.items()},
            shapes={local: unit.shapes[name] for local, name in names.items()},
            family=kind.rpartition(".")[2],
            pairs=pairs,
            parts=(),
            seen=(None, None),
        )
        for names in cells.values()
    )
