"""One call of a module as the body of a ``__call__``: statements with the original's names, in its order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from port.errors import NoPair
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, held, item_of, literal, names_in, ref, values_in
from port.translation.ir.graph import Value
from port.translation.ir.lowered import UNWRITTEN, Assignment, LoweredGraph
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.call_results import parts_of, unpacks
from port.translation.structure.call_tree import Call, FunctionCall, Item, ModuleCall, Repeated, made_by
from port.translation.structure.function_scope import FunctionScope
from port.translation.structure.inline_dce import Made, inlined, needed, tree_with_inlined, with_inlined
from port.translation.structure.kept_comments import is_worth_keeping
from port.translation.structure.name_hints import hints
from port.translation.structure.scan import ends_of, made_of_loop, with_inlined_ends, written_loop
from port.translation.structure.scope import Scope
from port.translation.structure.source_map import statement_at
from port.translation.structure.unpacking import assigned
from port.translation.structure.unreachable import LostLength, Unreachable
from port.translation.structure.written_function import Functions


@dataclass(frozen=True)
class Body:
    """A function's body.

    Attributes:
        parameters: names of the parameters that it needs, with their stars.
        statements: what it does.
        returns: what it gives.
        modes: whether it does one thing in training and another in evaluation.
        places: of the original's lines that the statements are of, as far as that is known.
    """

    parameters: tuple[str, ...]
    statements: tuple[syntax.Stmt, ...]
    returns: syntax.Expr | None
    modes: bool = False
    places: tuple[SourceLocation | None, ...] = field(default=(), compare=False, repr=False)


Bodies = dict[str, Body]


def write_body(
    call: ModuleCall,
    lowered: LoweredGraph,
    tree: ModuleTree,
    bodies: Bodies,
    functions: Functions | None = None,
) -> Body:
    """The body of a call.

    Args:
        call: in the tree of calls.
        lowered: the run.
        tree: how what the module holds is reached.
        bodies: of the calls inside, by their paths.
        functions: those that are called.

    Raises:
        Unreachable: it needs something of its caller that it is not given.
        NoPair: it gives an object that is no tensor and no tree of them.
    """
    known = functions or {}
    names = {function.name for function in known.values()}

    def writer() -> _Writer:
        return _Writer(call, Scope(call, lowered, tree, names), lowered, bodies, known)

    try:
        return _with_lengths(writer)
    except NoSource as error:
        raise NoPair(
            f"{type(call.module).__qualname__} gives or hands on a {type(error.thing).__qualname__}, which is neither "
            "a tensor nor a tuple, list or dict of them: return its tensors, and make the object of them outside"
        ) from None


def write_function_body(
    call: FunctionCall,
    lowered: LoweredGraph,
    tree: ModuleTree,
    functions: Functions,
    names: Collection[str],
) -> Body:
    """The body of a call of a function.

    Args:
        call: in the tree of calls.
        lowered: the run.
        tree: of the modules.
        functions: those that it calls.
        names: of all functions, which no variable may have.

    Raises:
        Unreachable: it needs something of its caller that it is not given.
        NoSource: it gives something that no expression says.
    """

    def writer() -> _Writer:
        return _Writer(call, FunctionScope(call, lowered, tree, names), lowered, {}, functions)

    return _with_lengths(writer)


def _with_lengths(writer: Callable[[], _Writer]) -> Body:
    """A body; where it needs a length that no array shows any more, with the arrays that show it kept.

    What is read only to say a length otherwise than the original does counts where it is written so, which is known
    once the body has its names.
    """
    keeping, unsaid = False, frozenset[str]()
    while True:
        try:
            made = writer()
            body = made.body(keeping_lengths=keeping, unsaid=unsaid)
        except LostLength:
            if keeping:
                raise
            keeping = True
            continue
        if made.scope.unsaid <= unsaid:
            return body
        unsaid |= made.scope.unsaid


class _Writer:
    def __init__(
        self,
        call: Call,
        scope: Scope,
        lowered: LoweredGraph,
        bodies: Bodies,
        functions: Functions,
    ) -> None:
        self.call, self.scope, self.lowered, self.bodies, self.functions = call, scope, lowered, bodies, functions
        self.results = call.results
        self.writes = dict(call.writes)
        self.told: set[SourceLocation] = set()
        self.wholes: dict[syntax.Expr, Value] = {}  # what calls gave so far as trees

    def body(self, *, keeping_lengths: bool = False, unsaid: frozenset[str] = frozenset()) -> Body:
        self.unsaid = unsaid
        made, inline = inlined(needed(self._made(self.call.items), self._ends()), self._ends())
        if self._gives_something():
            self.results = tree_with_inlined(self.results, inline)
        self.writes = {path: with_inlined(expression, inline) for path, expression in self.writes.items()}
        scope = self.scope
        scope.count_uses(made, self._ends(), keeping_lengths=keeping_lengths)
        located = self._located(made, scope, inline)
        statements = [statement for statement, _ in located]
        statements += scope.name_lengths(None)
        returns = self.scope.resolved(literal(self.results)) if self._gives_something() else None
        written = [self._written(path, expression) for path, expression in self.writes.items()]
        if written and returns is not None and any(map(_reads_variable, syntax.walk(returns))):
            # What is given is read before the buffers are written to.
            statements.append(syntax.Assign(syntax.Name("result"), returns))
            returns = syntax.Name("result")
        statements += written
        order = tuple(name for name in scope.parameters if name in scope.used_parameters)
        return Body(order, tuple(statements), returns, places=tuple(place for _, place in located))

    def _located(
        self, made: list[Made], scope: Scope, inline: dict[str, syntax.Expr]
    ) -> list[tuple[syntax.Stmt, SourceLocation | None]]:
        """The statements, each with the original's line that it is of."""
        found: list[tuple[syntax.Stmt, SourceLocation | None]] = []
        for scope.number, item in enumerate(made):
            place = None if item.statement is None else item.statement.place
            found += [(statement, place) for statement in self._of_item(item, scope, inline)]
        scope.number = len(made)
        return found

    def _of_item(self, item: Made, scope: Scope, inline: dict[str, syntax.Expr]) -> list[syntax.Stmt]:
        statements: list[syntax.Stmt] = []
        if item.statement is not None:
            statements += scope.name_lengths(item.statement.place)
        if item.statement is not None and item.statement.place not in self.told:
            self.told.add(item.statement.place)
            statements += [syntax.Comment(line) for line in item.statement.comments if is_worth_keeping(line)]
        if item.statement is not None and _is_unwritten(item.expression):
            statements += [syntax.Comment(f"# {line.strip()}") for line in item.statement.text.splitlines()]
        if item.scan is not None:
            statements += self._loop(item, scope, inline)
        statements += scope.aliases(item)
        expression = scope.resolved(item.expression)
        statements += scope.set_aside(item)
        targets = scope.targets(item)
        statements += [syntax.ExprStmt(expression)] if targets is None else assigned(targets, expression)
        return statements

    # %% Loops

    def _loop(self, item: Made, scope: Scope, inline: dict[str, syntax.Expr]) -> list[syntax.Stmt]:
        """``def step(h, x_t): …`` and ``h, outs = jax.lax.scan(step, h, x)``."""
        assert item.scan is not None
        ends = ends_of(item.scan)
        for each in item.rounds:
            each.expression = with_inlined(each.expression, inline)
        made, inner = inlined(needed(item.rounds, ends), ends)
        scan = with_inlined_ends(item.scan, {**inline, **inner})

        def statements(inside: Scope) -> list[syntax.Stmt]:
            inside.count_uses(made, ends_of(scan))
            return [statement for statement, _ in self._located(made, inside, {**inline, **inner})]

        if not isinstance(self.call, ModuleCall):
            raise Unreachable(self.call.path, "goes round a loop")
        function, item.expression = written_loop(replace(item, scan=scan), scope, type(self.call.module), statements)
        return [function]

    def _written(self, path: str, expression: syntax.Expr) -> syntax.Stmt:
        """``self.steps[...] = steps``."""
        return syntax.Assign(self.scope.resolved(self.lowered.homes[path]), self.scope.resolved(expression))

    def _ends(self) -> list[str]:
        """The values that what it gives, and what it writes, are made of."""
        given = values_in(literal(self.results)) if self._gives_something() else []
        return given + [name for expression in self.writes.values() for name in values_in(expression)]

    # %% What is made, and in how many statements

    def _made(self, items: Iterable[Item]) -> list[Made]:
        made = []
        for item in items:
            match item:
                case Assignment():
                    expression = syntax.transformed(item.expression, self._length)
                    made.append(Made(item.results, expression, statement_at(item.place)))
                case ModuleCall():
                    acts = bool(self.bodies[item.path].statements)
                    made += self._made_by_call(item, self._called(item), acts=acts)
                case FunctionCall():
                    made += self._made_by_call(item, self._called_function(item))
                case Repeated():
                    made.append(made_of_loop(item.scan, self._made(item.items)))
        hints(made)
        return made

    def _length(self, node: syntax.Node) -> syntax.Node:
        """A length that is known not to be said as the original does."""
        return node.otherwise if isinstance(node, syntax.SaidLength) and node.key in self.unsaid else node

    def _made_by_call(self, call: Call, called: syntax.Expr, *, acts: bool = False) -> Iterator[Made]:
        """A call: one statement for its results, or one for all that it gives and one for each part."""
        results, statement = self._as_values(call), statement_at(call.place)
        # What the original calls by one name and hands on is one thing here, too.
        is_one = statement is not None and isinstance(statement.targets, str) and not statement.taken
        if unpacks(results) and not (is_one and isinstance(results, tuple) and len(results) > 1):
            yield Made(results, called, statement, acts=acts)
            return
        parts: dict[Value, tuple[Any, ...]] = {}
        for keys, value in parts_of(results):
            parts.setdefault(value, keys)  # of an array that is given twice, the first
        whole = Value(f"{next(iter(parts)).name}_and_others", (), "tree")
        yield Made(whole, called, statement, acts=acts)
        self.wholes[literal(call.results)] = whole
        for value, keys in parts.items():
            expression: syntax.Expr = ref(whole)
            for key in keys:
                expression = item_of(expression, key)
            yield Made(value, expression, statement, keys=keys)

    def _as_values(self, call: Call) -> Any:
        """What a call gives: its own values, and None for all else, in the tree."""
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
        for name in self.bodies[call.path].parameters:
            given = call.parameters[name.lstrip("*")]
            if name.startswith("**"):
                keywords += [syntax.Keyword(key, self._given(item)) for key, item in given.items()]
            elif name.startswith("*"):
                arguments += [self._given(item) for item in given]
            else:
                arguments.append(self._given(given))
        return syntax.Call(held(call.path), tuple(arguments), tuple(keywords))

    def _called_function(self, call: FunctionCall) -> syntax.Expr:
        function = self.functions.get(call.function)
        if function is None:
            raise Unreachable(self.call.path, f"calls {call.function.__qualname__}, which is not written")
        return function.called(call, self._given)

    def _given(self, argument: Any) -> syntax.Expr:
        """An argument; where it is all that another call gave, as that."""
        expression = literal(argument)
        whole = None if isinstance(argument, syntax.Expr) else self.wholes.get(expression)
        return expression if whole is None else ref(whole)

    def _gives_something(self) -> bool:
        return self.results is not None


def _is_unwritten(expression: syntax.Expr) -> bool:
    return UNWRITTEN in names_in(expression)


def _reads_variable(node: syntax.Node) -> bool:
    """``self.steps[...]``."""
    return isinstance(node, syntax.Subscript) and node.slice == _ALL


_ALL = syntax.Const(...)
