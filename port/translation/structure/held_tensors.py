"""The parameters and buffers that the runs of a model read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from port.translation.ir.graph import Graph, Value, each_step, read_by
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import LoweredGraph

Runs = Mapping[bool, LoweredGraph]
"""Of one example call, by whether they are of training."""
AllRuns = Mapping[tuple[int, bool], LoweredGraph]
"""Of several, by the call's number and that."""


def of_all_cases(cases: Sequence[Runs]) -> AllRuns:
    """The runs of several example calls as one table."""
    return {(number, training): run for number, runs in enumerate(cases) for training, run in runs.items()}


def is_read(runs: AllRuns, path: str, name: str) -> bool:
    """Whether any run reads what a module holds under a name."""
    key = _key(path, name)
    return any(held == key for run in runs.values() for held in run.graph.held.values())


def is_left_out(runs: AllRuns, path: str, name: str) -> bool:
    """Whether a buffer that no checkpoint has is read by no run, and written by none: a copy kept for later, say."""
    key = _key(path, name)
    return not any(
        key in run.graph.written or any(run.graph.held.get(value) == key for value in _read(run.graph))
        for run in runs.values()
    )


def _read(graph: Graph) -> Iterator[Value]:
    for step in each_step(graph.steps):
        yield from read_by(step)


def layout_held(runs: AllRuns, path: str, name: str) -> Layout:
    """How the written module holds it."""
    key = _key(path, name)
    for run in runs.values():
        for value, held in run.graph.held.items():
            if held == key:
                return run.layouts[value]
    return torchs(0)


def _key(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
