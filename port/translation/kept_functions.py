"""Which of the original's functions are functions of the written source: those that can be said as such."""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType

from port.translation.both_modes import BothRuns
from port.translation.ir.instrumentation import after
from port.translation.ir.module_tree import ModuleTree
from port.translation.lowering.lower_graph import lower_graph
from port.translation.passes.dissolve_functions import without_functions
from port.translation.structure.written_function import Functions
from port.translation.structure.written_functions import Unwritable, written_functions


def with_kept_functions(captured: BothRuns) -> tuple[BothRuns, Functions]:
    """The runs without the functions that cannot be written as such, and those that can."""
    while True:
        try:
            return captured, written_functions(captured.runs, ModuleTree(captured.root, captured.layers))
        except Unwritable as error:
            captured = _dissolved(captured, error.functions)


def _dissolved(captured: BothRuns, functions: frozenset[FunctionType]) -> BothRuns:
    graphs = {training: without_functions(graph, functions) for training, graph in captured.graphs.items()}
    runs = {
        t: after("lower", lower_graph(graph, captured.root, captured.layouts, training=t), training=t)
        for t, graph in graphs.items()
    }
    return replace(captured, graphs=graphs, runs=runs)
