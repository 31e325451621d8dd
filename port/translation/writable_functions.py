"""Find which of the original's functions can be functions of the written source, and inline the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType

from port.translation.both_modes import BothRuns, lowered_runs
from port.translation.ir.module_tree import ModuleTree
from port.translation.passes.dissolve_functions import without_functions
from port.translation.structure.held_tensors import of_all_cases
from port.translation.structure.written_function import Functions
from port.translation.structure.written_functions import Unwritable, written_functions


def with_writable_functions(cases: Sequence[BothRuns]) -> tuple[list[BothRuns], Functions]:
    """Inline the functions that cannot be written; return the runs of each example call, and the functions that can."""
    cases = list(cases)
    while True:
        runs = of_all_cases([captured.runs for captured in cases]).values()
        try:
            return cases, written_functions(runs, ModuleTree(cases[0].root, cases[0].layers))
        except Unwritable as error:
            cases = [_dissolved(captured, error.functions) for captured in cases]


def _dissolved(captured: BothRuns, functions: frozenset[FunctionType]) -> BothRuns:
    graphs = {training: without_functions(graph, functions) for training, graph in captured.graphs.items()}
    return replace(captured, graphs=graphs, runs=lowered_runs(graphs, captured.root, captured.layouts))
