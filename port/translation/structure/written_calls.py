"""What every module's call does: its body, written for all cases and both modes, and merged."""

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
from port.translation.structure.call_annotations import annotations_of, numbers_given
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
        bodies: path of a module → what its call does. Its other methods stand at its head.
        elements: path of a Sequential → its children's names → what stands for each where it is no module of ours.
        numbers: `key_of` a call → the parameters that it is given whole numbers for, as `numbers_given` tells.
        annotations: `key_of` a call → what it is given and gives in any call, as `annotations_of` tells.
        options: `key_of` a call → the defaults of the parameters that hold no array in some case.
        held: what the root's parameters hold in each case.
        lists: `key_of` a call → its parameters that hold a list of one length in all calls: their names → the length.
        untaken: the root's options that hold the same in all of them.
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
    """Write the bodies of all calls; what differs between cases, or between the modes, stands behind a condition.

    Args:
        cases: the runs of each example call, by whether they are of training.
        tree: of the modules.
        dissolved: `key_of` the calls that are written out where they are called.
        functions: those that are called.

    Raises:
        Unreachable: the calls of a module, or of a method, cannot be one body.
        Indistinct: no argument of the root's tells two cases apart.
    """
    return _Writing(cases, tree, dissolved, functions or {}).calls()


class _Writing:
    """The bodies on their way.

    Attributes:
        lowered: the run that is written.
        bodies: of its calls, by their keys.
        held: what the parameters of its calls hold, by their keys.
        called: a call of each key.
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
        """The parameters that hold a list, of one length in all calls."""
        return {
            key: {name: next(iter(count)) for name, count in lengths.items() if len(count) == 1}
            for key, lengths in self.lengths.items()
        }

    def _idle(self, path: str, evaluation: Bodies) -> list[syntax.Expr]:
        """What the module at a path calls that gives what it is given, in evaluation."""
        found: list[syntax.Expr] = []
        for key, body in evaluation.items():
            call = self.called[key]
            given = [syntax.Name(own_name(name)) for name in body.parameters if not name.startswith("*")]
            if not body.statements and len(body.parameters) == 1 and given == [body.returns]:
                reached = self.tree.reach(path, call.path, "") if call.method == FORWARD else None
                if call.method != FORWARD and call.path == path:
                    reached = syntax.Attribute(syntax.Name("self"), call.method)
                found += [] if reached is None else [reached]
        return found

    def _with_methods(self, bodies: Bodies) -> Bodies:
        """The bodies of the modules, each with the module's other methods at its head."""
        made = {key: body for key, body in bodies.items() if self.called[key].method == FORWARD}
        for key, body in reversed(bodies.items()):
            if key not in made:
                path = self.called[key].path
                made[path] = with_method(made[path], self.called[key].method, body)
        return made

    def _with_options(self, root: Body, options: Iterable[str]) -> Body:
        """The root's body, which takes the options, too, as far as what is behind them has a default."""
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
        """The bodies of each mode in each case: a call takes what it needs in any, and its caller gives it in all."""
        before = None
        written: dict[bool, list[dict[str, CaseBody]]] = {}
        while parameters != before:
            before = {path: list(names) for path, names in parameters.items()}
            for training in self.cases[0]:
                written[training] = [self._written(case, training, parameters) for case in range(len(self.cases))]
        return written

    def _written(self, case: int, training: bool, parameters: dict[str, list[str]]) -> dict[str, CaseBody]:
        """The bodies of one run; what they need is noted among the parameters."""
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
        """The bodies of one mode in all cases.

        Raises:
            Unreachable: cases of an inner module differ that its own arguments do not tell apart.
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
        """Note the defaults of the parameters that hold no array in some case, and of those behind them."""
        names = [name.lstrip("*") for name in body.parameters if not name.startswith("*")]
        function = self.called[key].function
        is_option = False
        for name in sorted(names, key=[*inspect.signature(function).parameters].index):
            is_option |= any(isinstance(case.held.get(name), syntax.Expr) for case in cases.values())
            default = default_of(function, name)
            if is_option and default is not None:
                self.options[key][name] = default

    def _write(self, call: ModuleCall, parameters: dict[str, list[str]]) -> None:
        """Write the bodies, the innermost first; every call of one module has to have the same."""
        for inner in calls_in(call.items):
            self._write(inner, parameters)
        self.called[call.key] = call
        for name, given in call.parameters.items():
            if isinstance(given, list | tuple):
                self.lengths[call.key][own_name(name)].add(len(given))
        for name, annotation in annotations_of(call, self.lowered).items():
            self.annotations[call.key][name].add(annotation)
        for name, kind in numbers_given(call, self.lowered).items():
            known_kind = self.numbers[call.key].setdefault(name, kind)
            self.numbers[call.key][name] = kind if kind == known_kind else ""
        if self.tree.kind(call.path) == "sequential" and call.path and call.method == FORWARD:
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
            needed = [*body.parameters, *parameters.get(call.key, ())]
            body = replace(body, parameters=_in_order(needed, [*call.parameters]))
        known_body = self.bodies.get(call.key)
        if known_body is not None and known_body != body:
            raise Unreachable(call.key, "its calls differ")
        self.bodies[call.key] = body
        held = held_by(call, self.lowered)
        self.held[call.key] = in_all_calls(self.held[call.key], held) if call.key in self.held else held


def _in_order(names: list[str], order: list[str]) -> tuple[str, ...]:
    """Parameters in the order of ``forward``."""
    return tuple(sorted(dict.fromkeys(names), key=lambda name: order.index(name.lstrip("*"))))


def _note(known: list[str], names: Iterable[str]) -> None:
    known += [name for name in names if name not in known]
