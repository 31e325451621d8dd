"""The parameters and buffers that a model's graphs read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from port.translation.ir.graph import Graph, Value, each_step, read_by
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import LoweredGraph

Runs = Mapping[bool, LoweredGraph]
"""The graphs of one example call, by whether they are for training."""
AllRuns = Mapping[tuple[int, bool], LoweredGraph]
"""The graphs of several example calls, by (number of the call, whether for training)."""


def of_all_cases(cases: Sequence[Runs]) -> AllRuns:
    """The graphs of several example calls as one table."""
    return {(number, training): run for number, runs in enumerate(cases) for training, run in runs.items()}


def is_read(runs: AllRuns, path: str, name: str) -> bool:
    """Whether any graph reads the parameter or buffer of that name."""
    key = _key(path, name)
    return any(held == key for run in runs.values() for held in run.graph.held.values())


def is_left_out(runs: AllRuns, path: str, name: str) -> bool:
    """Whether a non-persistent buffer is neither read nor written by any graph, such as a copy kept for later."""
    key = _key(path, name)
    return not any(
        key in run.graph.written or any(run.graph.held.get(value) == key for value in _read(run.graph))
        for run in runs.values()
    )


def _read(graph: Graph) -> Iterator[Value]:
    for step in each_step(graph.steps):
        yield from read_by(step)


def layout_held(runs: AllRuns, path: str, name: str) -> Layout:
    """The layout in which the written module holds a parameter or buffer."""
    key = _key(path, name)
    for run in runs.values():
        for value, held in run.graph.held.items():
            if held == key:
                return run.layouts[value]
    return torchs(0)


def _key(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
