"""What a translation would need: every layer and operator of a model's run, and whether a pair speaks of it."""

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
    """One kind of layer, or one operator.

    Attributes:
        kind: ``"layer"`` or ``"operator"``.
        name: torch's.
        twin: Flax's class, of a layer that has a pair.
        count: how often it stands in the run.
        why: empty if all of it can be written; else why not.
        places: where, in the original: of what cannot be written, if there is any, else all.
    """

    kind: str
    name: str
    twin: str
    count: int
    why: str
    places: tuple[SourceLocation, ...]

    @property
    def is_known(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class Audit:
    """What a model is made of, what is unknown first."""

    rows: tuple[Audited, ...]

    @property
    def unknown(self) -> tuple[Audited, ...]:
        """What would have to be written by hand."""
        return tuple(row for row in self.rows if not row.is_known)


@output_sizes_at_calls()
def audit(
    module: torch.nn.Module, args: Any = (), kwargs: dict[str, Any] | None = None, *, static: bool = False
) -> Audit:
    """Run a model once, and say of each layer and operator whether it can be written in JAX; nothing is written.

    Args:
        module: of PyTorch.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        static: as for `port.translate`.

    Raises:
        UsageError: no module, or inputs that it does not take.
        NoPair: a module that torch.export cannot capture; says where and what to do.
    """
    run = partial(both_runs, module, args, kwargs)
    captured = run(free=()) if static else captured_with_free_lengths(run)
    found: dict[tuple[str, str], list[SourceLocation | None]] = {}
    twins: dict[tuple[str, str], str] = {}
    for graph in captured.graphs.values():  # what stands in one mode alone counts, too
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
    """The places of each kind of layer and of each operator; Flax's twins of the layers are added to ``twins``."""
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
    """Arithmetic of lengths, which are numbers on both sides."""
    return name.startswith("aten.sym_") or (not name.startswith("aten.") and hasattr(operator, name.rpartition(".")[2]))


def _twin(layer: Any) -> str:
    try:
        return name_of(twin_pair(layer).flax)
    except Exception:  # a pair of a user's may say what it likes: the audit goes on
        return ""


def _places(name: str, places: list[SourceLocation | None], unwritten: list[Unsupported]) -> tuple[SourceLocation, ...]:
    refused = [item.place for item in unwritten if item.what == name]
    distinct = {place for place in (refused or places) if place is not None}
    return tuple(sorted(distinct, key=lambda place: (place.file, place.line)))
