"""Write the body of every module's call, for all cases and both modes, and merge them."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.module_calls import FORWARD
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.body import write_body
from port.translation.structure.call_annotations import annotations_of, number_parameters
from port.translation.structure.call_tree import ModuleCall, call_tree, calls_in
from port.translation.structure.case_merge import Indistinct, merged_cases
from port.translation.structure.cases import CaseBody, Held, default_of, held_by, in_all_calls
from port.translation.structure.held_tensors import Runs
from port.translation.structure.methods import with_method
from port.translation.structure.name_hints import own_name
from port.translation.structure.sequential import IDENTITY, elements
from port.translation.structure.train_eval_merge import merged
from port.translation.structure.unreachable import LostLength, Unreachable
from port.translation.structure.untaken import Untaken, untaken_options
from port.translation.structure.written_body import Bodies, Body
from port.translation.structure.written_function import Functions


@dataclass(frozen=True)
class WrittenCalls:
    """The calls of all modules.

    Attributes:
        bodies: path of a module → the body of its call, with its other methods at the top.
        elements: path of a Sequential → child names → the function in place of a child that is not a written module.
        numbers: `key_of` a call → its parameters that receive whole numbers (see `number_parameters`).
        annotations: `key_of` a call → annotations of its parameters and results in any call (see `annotations_of`).
        options: `key_of` a call → defaults of the parameters that hold no array in some case.
        held: the values of the root's parameters in each case.
        lists: `key_of` a call → parameters that hold a list of the same length in all calls → the length.
        untaken: the root's options that have one value in all cases.
    """

    bodies: Mapping[str, Body]
    elements: Mapping[str, Mapping[str, syntax.Expr | None]]
    numbers: Mapping[str, Mapping[str, str]]
    annotations: Mapping[str, Mapping[str, set[str]]]
    options: Mapping[str, Mapping[str, syntax.Expr]]
    held: tuple[Mapping[str, Held], ...]
    lists: Mapping[str, Mapping[str, int]]
    untaken: tuple[Untaken, ...]


def written_calls(
    cases: Sequence[Runs], tree: ModuleTree, dissolved: set[str], functions: Functions | None = None
) -> WrittenCalls:
    """Write the bodies of all calls; what differs between cases or modes goes under a condition.

    Args:
        cases: the graphs of each example call, by whether they are for training.
        tree: the module tree.
        dissolved: `key_of` the calls to inline where they are called.
        functions: the functions that are called.

    Raises:
        Unreachable: the calls of a module, or of a method, have no common body.
        Indistinct: no argument of the root distinguishes two cases.
    """
    return _Writing(cases, tree, dissolved, functions or {}).calls()


class _Writing:
    """Writes and merges the bodies.

    Attributes:
        lowered: the graph that is being written.
        bodies: the bodies of its calls, by key.
        held: the values of its calls' parameters, by key.
        called: one call per key.
    """

    def __init__(self, cases: Sequence[Runs], tree: ModuleTree, dissolved: set[str], functions: Functions) -> None:
        self.cases, self.tree, self.dissolved, self.functions = cases, tree, dissolved, functions
        self.lowered = cases[0][max(cases[0])]
        self.bodies: Bodies = {}
        self.held: dict[str, dict[str, Held]] = {}
        self.called: dict[str, ModuleCall] = {}
        self.elements: dict[str, dict[str, syntax.Expr | None]] = {}
        self.numbers: dict[str, dict[str, str]] = defaultdict(dict)
        self.annotations: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.options: dict[str, dict[str, syntax.Expr]] = defaultdict(dict)
        self.lengths: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.root_held: list[dict[str, Held]] = [{} for _ in cases]

    def calls(self) -> WrittenCalls:
        parameters: dict[str, list[str]] = {}
        before: dict[str, list[str]] | None = None
        while parameters != before:
            cases = self._with_all_parameters(parameters)
            before = {path: list(names) for path, names in parameters.items()}
            # A condition may read an argument that nothing else does.
            written = {training: self._merged(of_mode, parameters) for training, of_mode in cases.items()}
            bodies = {path: body for of_mode in written.values() for path, body in of_mode.items()}
            if len(written) == 2:
                for key in written[True].keys() & written[False].keys():
                    idle = self._idle(self.called[key].path, written[False])
                    bodies[key] = merged(written[True][key], written[False][key], idle)
        root = bodies[""]
        untaken = untaken_options(self.tree.root, self.root_held, root)
        varying = [name for name in self.root_held[0] if len({case.get(name) for case in self.root_held}) > 1]
        bodies[""] = self._with_options(root, [*varying, *(option.name for option in untaken)])
        return WrittenCalls(
            self._with_methods(bodies),
            self.elements,
            dict(self.numbers),
            dict(self.annotations),
            dict(self.options),
            tuple(self.root_held),
            self._lists(),
            tuple(option for option in untaken if option.name in bodies[""].parameters),
        )

    def _lists(self) -> dict[str, dict[str, int]]:
        """The parameters that hold a list of the same length in all calls."""
        return {
            key: {name: next(iter(count)) for name, count in lengths.items() if len(count) == 1}
            for key, lengths in self.lengths.items()
        }

    def _idle(self, path: str, evaluation: Bodies) -> list[syntax.Expr]:
        """The modules and methods called by the module at a path that return their input in evaluation."""
        found: list[syntax.Expr] = []
        for key, body in evaluation.items():
            call = self.called[key]
            inputs = [syntax.Name(own_name(name)) for name in body.parameters if not name.startswith("*")]
            if not body.statements and len(body.parameters) == 1 and inputs == [body.returns]:
                reached = self.tree.reach(path, call.path, "") if call.method == FORWARD else None
                if call.method != FORWARD and call.path == path:
                    reached = syntax.Attribute(syntax.Name("self"), call.method)
                found += [] if reached is None else [reached]
        return found

    def _with_methods(self, bodies: Bodies) -> Bodies:
        """The bodies of the modules, each with the module's other methods at its top."""
        made = {key: body for key, body in bodies.items() if self.called[key].method == FORWARD}
        for key, body in reversed(bodies.items()):
            if key not in made:
                path = self.called[key].path
                made[path] = with_method(made[path], self.called[key].method, body)
        return made

    def _with_options(self, root: Body, options: Iterable[str]) -> Body:
        """Add the options to the root's parameters, as far as the parameters after them have defaults."""
        module = self.tree.root
        order = [*inspect.signature(type(module).forward).parameters]
        for option in dict.fromkeys(options):
            behind = [name for name in root.parameters if order.index(name.lstrip("*")) > order.index(option)]
            forward = type(module).forward
            defaults = {name: default_of(forward, name.lstrip("*")) for name in (option, *behind)}
            known = {name: default for name, default in defaults.items() if default is not None}
            if len(known) == len(defaults):
                root = replace(root, parameters=_in_order([*root.parameters, option], order))
                self.options[""] |= known
        return root

    def _with_all_parameters(self, parameters: dict[str, list[str]]) -> dict[bool, list[dict[str, CaseBody]]]:
        """Write the bodies of each mode in each case: a parameter that any case needs is passed in all of them."""
        before = None
        written: dict[bool, list[dict[str, CaseBody]]] = {}
        while parameters != before:
            before = {path: list(names) for path, names in parameters.items()}
            for training in self.cases[0]:
                written[training] = [self._written(case, training, parameters) for case in range(len(self.cases))]
        return written

    def _written(self, case: int, training: bool, parameters: dict[str, list[str]]) -> dict[str, CaseBody]:
        """Write the bodies of one graph; the parameters that they need are recorded."""
        self.bodies, self.held, self.lowered = {}, {}, self.cases[case][training]
        try:
            self._write(call_tree(self.lowered, self.dissolved, self.tree), parameters)
        except LostLength as error:
            error.case = case
            raise
        for path, body in self.bodies.items():
            _note(parameters.setdefault(path, []), body.parameters)
        self.root_held[case] = self.held[""]
        return {path: CaseBody(body, self.held[path]) for path, body in self.bodies.items()}

    def _merged(self, cases: list[dict[str, CaseBody]], parameters: dict[str, list[str]]) -> Bodies:
        """Merge the bodies of one mode over all cases.

        Raises:
            Unreachable: the cases of an inner module differ, and its own arguments do not distinguish them.
        """
        made: Bodies = {}
        for key in dict.fromkeys(key for case in cases for key in case):
            of_cases = {number: case[key] for number, case in enumerate(cases) if key in case}
            call = self.called[key]
            try:
                body = merged_cases(of_cases, call.module, call.function)
            except Indistinct as error:
                if key:
                    raise Unreachable(key, "its calls differ") from error
                raise
            if len(of_cases) > 1:
                self._note_options(key, of_cases, body)
            known = parameters.setdefault(key, [])
            _note(known, body.parameters)
            made[key] = replace(body, parameters=_in_order(known, [*inspect.signature(call.function).parameters]))
        return made

    def _note_options(self, key: str, cases: Mapping[int, CaseBody], body: Body) -> None:
        """Record the defaults of the parameters that hold no array in some case, and of those after them."""
        names = [name.lstrip("*") for name in body.parameters if not name.startswith("*")]
        function = self.called[key].function
        is_option = False
        for name in sorted(names, key=[*inspect.signature(function).parameters].index):
            is_option |= any(isinstance(case.held.get(name), syntax.Expr) for case in cases.values())
            default = default_of(function, name)
            if is_option and default is not None:
                self.options[key][name] = default

    def _write(self, call: ModuleCall, parameters: dict[str, list[str]]) -> None:
        """Write the bodies, innermost first; all calls of one module must have equal bodies."""
        for inner in calls_in(call.items):
            self._write(inner, parameters)
        self.called[call.key] = call
        for name, argument in call.parameters.items():
            if isinstance(argument, list | tuple):
                self.lengths[call.key][own_name(name)].add(len(argument))
        for name, annotation in annotations_of(call, self.lowered).items():
            self.annotations[call.key][name].add(annotation)
        for name, kind in number_parameters(call, self.lowered).items():
            known_kind = self.numbers[call.key].setdefault(name, kind)
            self.numbers[call.key][name] = kind if kind == known_kind else ""
        if self.tree.kind(call.path) == "sequential" and call.path and call.method == FORWARD:
            found = elements(call, self.tree, self.bodies)
            body = Body(("input",), (), None)
            known = self.elements.setdefault(call.path, found)
            for name, element in found.items():
                # A child that is called in one mode, and whose result the other mode does not need.
                if known[name] == code(IDENTITY):
                    known[name] = element
                elif element not in (code(IDENTITY), known[name]):
                    raise Unreachable(call.path, "its calls differ")
        else:
            body = write_body(call, self.lowered, self.tree, self.bodies, self.functions)
            needed = [*body.parameters, *parameters.get(call.key, ())]
            body = replace(body, parameters=_in_order(needed, [*call.parameters]))
        known_body = self.bodies.get(call.key)
        if known_body is not None and known_body != body:
            raise Unreachable(call.key, "its calls differ")
        self.bodies[call.key] = body
        held = held_by(call, self.lowered)
        self.held[call.key] = in_all_calls(self.held[call.key], held) if call.key in self.held else held


def _in_order(names: list[str], order: list[str]) -> tuple[str, ...]:
    """Sort parameters in the order of ``forward``."""
    return tuple(sorted(dict.fromkeys(names), key=lambda name: order.index(name.lstrip("*"))))


def _note(known: list[str], names: Iterable[str]) -> None:
    known += [name for name in names if name not in known]
