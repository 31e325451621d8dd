"""Find where gradients stop: values computed under ``torch.no_grad()``."""

from __future__ import annotations

from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, Value, each_step, each_value, read_by
from port.translation.ir.module_calls import ScopeExit


def read_past_no_grad(graph: Graph) -> set[Value]:
    """Return the values computed under ``no_grad`` that a step outside it reads."""
    made: set[Value] = set()
    cut: set[Value] = set()
    for step in each_step(graph.steps):
        match step:
            case Operation() | LayerCall():
                read = each_value((step.arguments, step.keywords if isinstance(step, LayerCall) else ()))
                if step.detached:
                    made.update(value for value in each_value(step.results) if value.shape is not None)
                else:
                    cut.update(value for value in read if value in made)
            case Loop() | ScopeExit() if isinstance(step, Loop) or step.is_roots:
                cut.update(value for value in read_by(step) if value in made)
    return cut
