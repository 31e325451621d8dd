"""The parameters and buffers that the runs of a model read."""

from __future__ import annotations

from collections.abc import Mapping

from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import LoweredGraph

Runs = Mapping[bool, LoweredGraph]


def is_read(runs: Runs, path: str, name: str) -> bool:
    """Whether any run reads what a module holds under a name."""
    key = _key(path, name)
    return any(held == key for run in runs.values() for held in run.graph.held.values())


def layout_held(runs: Runs, path: str, name: str) -> Layout:
    """How the written module holds it."""
    key = _key(path, name)
    for run in runs.values():
        for value, held in run.graph.held.items():
            if held == key:
                return run.layouts[value]
    return torchs(0)


def _key(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
