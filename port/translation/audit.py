"""Audit a model: every layer and operator in its run, and whether it has a pair."""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from port.pairs import name_of
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.pairs.twin import twin_pair
from port.translation.both_modes import both_runs
from port.translation.free_dimensions import captured_with_free_lengths
from port.translation.ir.graph import Graph, LayerCall, Operation, each_step
from port.translation.ir.lowered import Unsupported
from port.translation.ir.source_location import SourceLocation

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Audited:
    """A kind of layer, or an operator, in a model's run.

    Attributes:
        kind: ``"layer"`` or ``"operator"``.
        name: torch's name.
        twin: the Flax class of a layer that has a pair; else empty.
        count: how often it occurs in the run.
        why: why it cannot be written; empty if it can.
        places: its locations in the original; if some cannot be written, only those.
    """

    kind: str
    name: str
    twin: str
    count: int
    why: str
    places: tuple[SourceLocation, ...]

    @property
    def is_known(self) -> bool:
        """Whether it can be written."""
        return not self.why


@dataclass(frozen=True)
class Audit:
    """The layers and operators of a model, those that cannot be written first."""

    rows: tuple[Audited, ...]

    @property
    def unknown(self) -> tuple[Audited, ...]:
        """The rows that would have to be written by hand."""
        return tuple(row for row in self.rows if not row.is_known)


@output_sizes_at_calls()
def audit(
    module: torch.nn.Module, args: Any = (), kwargs: dict[str, Any] | None = None, *, static: bool = False
) -> Audit:
    """Run a model once, and report for each layer and operator whether it can be written in JAX; write nothing.

    Args:
        module: a PyTorch module.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: keyword arguments.
        static: as in `port.translate`.

    Raises:
        UsageError: not a module, or it does not take its inputs.
        NoPair: torch.export cannot capture the module; says where and what to do.
    """
    run = partial(both_runs, module, args, kwargs)
    captured = run(free=()) if static else captured_with_free_lengths(run)
    found: dict[tuple[str, str], list[SourceLocation | None]] = {}
    twins: dict[tuple[str, str], str] = {}
    for graph in captured.graphs.values():  # including what only one mode runs
        for key, places in _of(graph, twins).items():
            found[key] = max(found.get(key, []), places, key=len)
    unwritten = list(dict.fromkeys(item for run in captured.runs.values() for item in run.unwritten))
    why = {item.what: item.why for item in unwritten}
    rows = [
        Audited(
            kind, name, twins.get((kind, name), ""), len(places), why.get(name, ""), _places(name, places, unwritten)
        )
        for (kind, name), places in found.items()
    ]
    return Audit(tuple(sorted(rows, key=lambda row: (row.is_known, row.kind, -row.count, row.name))))


def _of(graph: Graph, twins: dict[tuple[str, str], str]) -> dict[tuple[str, str], list[SourceLocation | None]]:
    """Return the locations of each kind of layer and each operator, and add the layers' Flax twins to ``twins``."""
    found: dict[tuple[str, str], list[SourceLocation | None]] = defaultdict(list)
    for step in each_step(graph.steps):
        match step:
            case LayerCall():
                cls = type(step.module)
                key = ("layer", f"{cls.__module__}.{cls.__qualname__}")
                twins[key] = _twin(step.module)
                found[key].append(step.place)
            case Operation() if not _is_of_sizes(step.operator):
                found["operator", step.operator.removesuffix(".default")].append(step.place)
    return found


def _is_of_sizes(name: str) -> bool:
    """Whether an operator is arithmetic on lengths, which are numbers on both sides."""
    return name.startswith("aten.sym_") or (not name.startswith("aten.") and hasattr(operator, name.rpartition(".")[2]))


def _twin(layer: Any) -> str:
    try:
        return name_of(twin_pair(layer).flax)
    except Exception:  # a user's pair may raise anything; the audit continues
        return ""


def _places(name: str, places: list[SourceLocation | None], unwritten: list[Unsupported]) -> tuple[SourceLocation, ...]:
    refused = [item.place for item in unwritten if item.what == name]
    distinct = {place for place in (refused or places) if place is not None}
    return tuple(sorted(distinct, key=lambda place: (place.file, place.line)))
