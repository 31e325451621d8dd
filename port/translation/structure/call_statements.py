"""Calls of modules, methods and functions as statements of the calling body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import held, item_of, literal, ref
from port.translation.ir.graph import Value, each_value
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_calls import FORWARD
from port.translation.structure.call_results import parts_of, unpacks
from port.translation.structure.call_tree import Call, FunctionCall, ModuleCall, made_by
from port.translation.structure.inline_dce import Made
from port.translation.structure.source_map import outer_statements, statement_at
from port.translation.structure.unreachable import Unreachable
from port.translation.structure.written_body import Body
from port.translation.structure.written_function import Functions


def written_function(call: Call) -> Any:
    """The function or method whose body a call runs; None for a ``forward``, at which source lines end anyway."""
    return None if isinstance(call, ModuleCall) and call.method == FORWARD else call.function


class CallStatements:
    """Writes the calls of one body.

    Args:
        lowered: the lowered graph.
        bodies: the callees' bodies, by `key_of` the calls.
        functions: the functions that are called.
    """

    def __init__(self, lowered: LoweredGraph, bodies: Mapping[str, Body], functions: Functions) -> None:
        self.lowered, self.bodies, self.functions = lowered, bodies, functions
        self.wholes: dict[syntax.Expr, Value] = {}  # the trees that calls have returned so far

    def made_by(self, call: ModuleCall | FunctionCall, caller: Call) -> Iterator[Made]:
        """Yield one statement for a call's results, or one for all of them and one for each part.

        Args:
            call: the call of a module, a method or a function.
            caller: the call whose code contains it.

        Raises:
            Unreachable: the called function is not written.
        """
        if isinstance(call, FunctionCall):
            called, acts = self._called_function(call, caller), False
        else:
            called, acts = self._called(call), bool(self.bodies[call.key].statements)
        results, statement = self._as_values(call), statement_at(call.place)
        outer = outer_statements(call.place, written_function(caller))
        named = None if statement is None else statement.targets
        if isinstance(results, tuple) and isinstance(named, tuple) and _are_named(results, named):
            yield from self._parts_by_names(call, results, Made(None, called, statement, acts=acts, outer=outer))
            return
        # Where the original has one name for the results and passes them on, so does the translation.
        is_one = statement is not None and isinstance(statement.targets, str) and not statement.taken
        if unpacks(results) and not (is_one and isinstance(results, tuple) and len(results) > 1):
            yield Made(results, called, statement, acts=acts, outer=outer)
            return
        parts: dict[Value, tuple[Any, ...]] = {}
        for keys, value in parts_of(results):
            parts.setdefault(value, keys)  # an array that is returned twice is read at its first place
        whole = Value(f"{next(iter(parts)).name}_and_others", (), "tree")
        yield Made(whole, called, statement, acts=acts, outer=outer)
        self.wholes[literal(call.results)] = whole
        for value, keys in parts.items():
            yield Made(value, _part(whole, keys), statement, keys=keys)

    def _parts_by_names(self, call: Call, results: tuple[Any, ...], made: Made) -> Iterator[Made]:
        """Yield ``x, skips = self.encode(x)``, and one statement for each part of a tree that has a single name."""
        targets: list[Any] = []
        parts: list[Made] = []
        for place, result in enumerate(results):
            values = {value: keys for keys, value in parts_of(result)}
            if not isinstance(result, tuple | dict) or not values:
                targets.append(result)
                continue
            whole = Value(f"{next(iter(values)).name}_and_others", (), "tree")
            targets.append(whole)
            self.wholes[literal(call.results[place])] = whole
            for value, keys in values.items():
                parts.append(Made(value, _part(whole, keys), made.statement, keys=(place, *keys)))
        yield replace(made, results=tuple(targets))
        yield from parts

    def _as_values(self, call: Call) -> Any:
        """A call's results as a tree: the values that the call itself computes, and None for everything else."""
        inner = {value.name for step in call.items for value in made_by(step)}

        def walk(results: Any) -> Any:
            match results:
                case syntax.Use(name) if name in inner:
                    return self.lowered.values[name]
                case dict():
                    return {key: walk(item) for key, item in results.items()}
                case tuple() | list():
                    return tuple(map(walk, results))
                case _:
                    return None

        return walk(call.results)

    def _called(self, call: ModuleCall) -> syntax.Expr:
        arguments: list[syntax.Expr] = []
        keywords: list[syntax.Keyword] = []
        for name in self.bodies[call.key].parameters:
            argument = call.parameters[name.lstrip("*")]
            if name.startswith("**"):
                keywords += [syntax.Keyword(key, self._argument(item)) for key, item in argument.items()]
            elif name.startswith("*"):
                arguments += [self._argument(item) for item in argument]
            else:
                arguments.append(self._argument(argument))
        called = held(call.path) if call.method == FORWARD else syntax.Attribute(syntax.Name("self"), call.method)
        return syntax.Call(called, tuple(arguments), tuple(keywords))

    def _called_function(self, call: FunctionCall, caller: Call) -> syntax.Expr:
        function = self.functions.get(call.function)
        if function is None:
            raise Unreachable(caller.key, f"calls {call.function.__qualname__}, which is not written")
        return function.called(call, self._argument)

    def _argument(self, argument: Any) -> syntax.Expr:
        """Write an argument; the whole result of another call is written as its one name."""
        expression = literal(argument)
        whole = None if isinstance(argument, syntax.Expr) else self.wholes.get(expression)
        return expression if whole is None else ref(whole)


def _are_named(results: tuple[Any, ...], names: tuple[Any, ...]) -> bool:
    """Whether each tree in a call's results has one name, and no array is returned twice."""
    values = list(each_value(results))
    if len(results) != len(names) or len(values) > len(set(values)):
        return False
    trees = (number for number, result in enumerate(results) if isinstance(result, tuple | dict))
    return all(isinstance(names[number], str) for number in trees)


def _part(whole: Value, keys: tuple[Any, ...]) -> syntax.Expr:
    """Read one part of a tree that a call returned: ``skips[0]``."""
    expression: syntax.Expr = ref(whole)
    for key in keys:
        expression = item_of(expression, key)
    return expression
