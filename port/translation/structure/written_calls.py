"""What every module's call does: its body, written for both modes and merged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.body import Bodies, Body, write_body
from port.translation.structure.call_tree import ModuleCall, annotations_of, call_tree, calls_in, numbers_given
from port.translation.structure.sequential import IDENTITY, elements
from port.translation.structure.train_eval_merge import merged
from port.translation.structure.unreachable import Unreachable
from port.translation.structure.written_function import Functions


@dataclass(frozen=True)
class WrittenCalls:
    """The calls of all modules.

    Attributes:
        bodies: path of a module → what its call does.
        elements: path of a Sequential → its children's names → what stands for each where it is no module of ours.
        numbers: path of a module → the parameters that it is given whole numbers for, as `numbers_given` tells.
        annotations: path of a module → what it is given and gives in any call, as `annotations_of` tells.
    """

    bodies: Mapping[str, Body]
    elements: Mapping[str, Mapping[str, syntax.Expr | None]]
    numbers: Mapping[str, Mapping[str, str]]
    annotations: Mapping[str, Mapping[str, set[str]]]


def written_calls(
    runs: Mapping[bool, LoweredGraph],
    tree: ModuleTree,
    dissolved: set[str],
    functions: Functions | None = None,
) -> WrittenCalls:
    """Write the bodies of all calls; what differs between the modes stands behind a condition.

    Args:
        runs: by whether it is of training.
        tree: of the modules.
        dissolved: paths of modules whose calls are written out where they are called.
        functions: those that are called.

    Raises:
        Unreachable: a module's calls cannot be one body.
    """
    return _Writing(runs, tree, dissolved, functions or {}).calls()


class _Writing:
    def __init__(
        self,
        runs: Mapping[bool, LoweredGraph],
        tree: ModuleTree,
        dissolved: set[str],
        functions: Functions,
    ) -> None:
        self.runs, self.tree, self.dissolved, self.functions = runs, tree, dissolved, functions
        self.lowered = runs[max(runs)]
        self.bodies: Bodies = {}
        self.elements: dict[str, dict[str, syntax.Expr | None]] = {}
        self.numbers: dict[str, dict[str, str]] = defaultdict(dict)
        self.annotations: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def calls(self) -> WrittenCalls:
        written: dict[bool, Bodies] = {}
        parameters: dict[str, list[str]] = {}
        before = None
        while parameters != before:
            # A module's call takes what it needs in any mode, and its caller gives it in both.
            before = {path: list(names) for path, names in parameters.items()}
            for training, lowered in self.runs.items():
                self.bodies, self.lowered = {}, lowered
                self._write(call_tree(lowered, self.dissolved, self.tree), parameters)
                written[training] = self.bodies
                for path, body in self.bodies.items():
                    known = parameters.setdefault(path, [])
                    known += [name for name in body.parameters if name not in known]
        bodies = {path: body for of_mode in written.values() for path, body in of_mode.items()}
        if len(written) == 2:
            for path in written[True].keys() & written[False].keys():
                bodies[path] = merged(written[True][path], written[False][path])
        return WrittenCalls(bodies, self.elements, dict(self.numbers), dict(self.annotations))

    def _write(self, call: ModuleCall, parameters: dict[str, list[str]]) -> None:
        """Write the bodies, the innermost first; every call of one module has to have the same."""
        for inner in calls_in(call.items):
            self._write(inner, parameters)
        for name, annotation in annotations_of(call, self.lowered).items():
            self.annotations[call.path][name].add(annotation)
        for name, kind in numbers_given(call, self.lowered).items():
            known_kind = self.numbers[call.path].setdefault(name, kind)
            self.numbers[call.path][name] = kind if kind == known_kind else ""
        if self.tree.kind(call.path) == "sequential" and call.path:
            found = elements(call, self.tree, self.bodies)
            body = Body(("input",), (), None)
            known = self.elements.setdefault(call.path, found)
            for name, element in found.items():
                # A child that one mode calls, and whose work the other does not need.
                if known[name] == code(IDENTITY):
                    known[name] = element
                elif element not in (code(IDENTITY), known[name]):
                    raise Unreachable(call.path, "its calls differ")
        else:
            body = write_body(call, self.lowered, self.tree, self.bodies, self.functions)
            needed = [*body.parameters, *parameters.get(call.path, ())]
            body = replace(body, parameters=_in_order(needed, call))
        known_body = self.bodies.get(call.path)
        if known_body is not None and known_body != body:
            raise Unreachable(call.path, "its calls differ")
        self.bodies[call.path] = body


def _in_order(names: list[str], call: ModuleCall) -> tuple[str, ...]:
    """Parameters in the order of ``forward``."""
    order = list(call.parameters)
    return tuple(sorted(dict.fromkeys(names), key=lambda name: order.index(name.lstrip("*"))))
