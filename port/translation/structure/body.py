"""Write one call of a module as the body of a ``__call__``, with the original's names and order of statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from port.errors import NoPair
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, literal, names_in, values_in
from port.translation.ir.lowered import UNWRITTEN, Assignment, LoweredGraph
from port.translation.ir.module_calls import FORWARD
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.call_statements import CallStatements, written_function
from port.translation.structure.call_tree import Call, FunctionCall, Item, ModuleCall, Repeated
from port.translation.structure.function_scope import FunctionScope, MethodScope
from port.translation.structure.inline_dce import Made, inlined, live, tree_with_inlined, with_inlined
from port.translation.structure.kept_comments import is_worth_keeping
from port.translation.structure.name_hints import hints
from port.translation.structure.operand_order import with_numbers_in_front
from port.translation.structure.scan import ends_of, loop_statement, with_inlined_ends, written_loop
from port.translation.structure.scope import Scope
from port.translation.structure.source_map import outer_statements, statement_at
from port.translation.structure.unpacking import assigned
from port.translation.structure.unreachable import LostLength, Unreachable
from port.translation.structure.written_body import Bodies, Body
from port.translation.structure.written_function import Functions


def write_body(
    call: ModuleCall,
    lowered: LoweredGraph,
    tree: ModuleTree,
    bodies: Bodies,
    functions: Functions | None = None,
) -> Body:
    """Write the body of a module's call.

    Args:
        call: the call, from the call tree.
        lowered: the lowered graph.
        tree: how to reach what the module holds.
        bodies: the bodies of the calls inside, by their keys.
        functions: the functions that it calls.

    Raises:
        Unreachable: the call needs a value of its caller that is not passed to it.
        NoPair: it returns or passes on an object that is neither a tensor nor a tree of tensors.
    """
    known = functions or {}
    names = {function.name for function in known.values()}

    def writer() -> _Writer:
        # Numbers that the root receives are options of the model.
        is_roots = not call.path and call.method == FORWARD
        scope = (Scope if is_roots else MethodScope)(call, lowered, tree, names)
        return _Writer(call, scope, lowered, bodies, known)

    try:
        return _with_lengths(writer)
    except NoSource as error:
        raise NoPair(
            f"{type(call.module).__qualname__} returns or passes on a {type(error.thing).__qualname__}, which is "
            "neither a tensor nor a tuple, list or dict of them: return its tensors, and build the object outside"
        ) from None


def write_function_body(
    call: FunctionCall,
    lowered: LoweredGraph,
    tree: ModuleTree,
    functions: Functions,
    names: Collection[str],
) -> Body:
    """Write the body of a call of a function.

    Args:
        call: the call, from the call tree.
        lowered: the lowered graph.
        tree: the module tree.
        functions: the functions that it calls.
        names: the names of all functions, which no variable may take.

    Raises:
        Unreachable: the function needs a value of its caller that is not passed to it.
        NoSource: it returns something that has no source form.
    """

    def writer() -> _Writer:
        return _Writer(call, FunctionScope(call, lowered, tree, names), lowered, {}, functions)

    return _with_lengths(writer)


def _with_lengths(writer: Callable[[], _Writer]) -> Body:
    """Build a body; keep arrays alive for their shapes where a later length needs them.

    An array that is read only to express a length differently from the original counts as read only if the length is
    finally written that way, which is known once the body has its names. So the body is built until that set is stable.
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
        self.call, self.scope, self.lowered = call, scope, lowered
        self.function = written_function(call)
        self.results = call.results
        self.writes = dict(call.writes)
        self.commented: set[SourceLocation] = set()
        self.calls = CallStatements(lowered, bodies, functions)

    def body(self, *, keeping_lengths: bool = False, unsaid: frozenset[str] = frozenset()) -> Body:
        self.unsaid = unsaid
        made, inline = inlined(live(self._made(self.call.items), self._ends()), self._ends())
        if self._gives_something():
            self.results = tree_with_inlined(self.results, inline)
        self.writes = {path: with_inlined(expression, inline) for path, expression in self.writes.items()}
        scope = self.scope
        scope.count_uses(made, self._ends(), keeping_lengths=keeping_lengths)
        located = self._located(made, scope, inline)
        located += scope.name_lengths(None)
        statements = [statement for statement, _ in located]
        returns = self.scope.resolved(literal(self.results)) if self._gives_something() else None
        written = [self._written(path, expression) for path, expression in self.writes.items()]
        if written and returns is not None and any(map(_reads_variable, syntax.walk(returns))):
            # The result is read before the buffers are overwritten.
            statements.append(syntax.Assign(syntax.Name("result"), returns))
            returns = syntax.Name("result")
        statements += written
        order = tuple(name for name in scope.parameters if name in scope.used_parameters)
        return Body(order, tuple(statements), returns, places=tuple(place for _, place in located))

    def _located(
        self, made: list[Made], scope: Scope, inline: dict[str, syntax.Expr]
    ) -> list[tuple[syntax.Stmt, SourceLocation | None]]:
        """The statements, each with the line of the original that it comes from."""
        found: list[tuple[syntax.Stmt, SourceLocation | None]] = []
        for scope.number, item in enumerate(made):
            if item.statement is not None:
                found += scope.name_lengths(item.statement.place)
            place = self._place(item)
            found += [(statement, place) for statement in self._of_item(item, scope, inline)]
        scope.number = len(made)
        return found

    def _place(self, item: Made) -> SourceLocation | None:
        """The line of the original that a statement comes from; in a function's body, a line of that function."""
        if item.statement is None:
            return None
        return item.outer[-1].place if item.outer and self.function is not None else item.statement.place

    def _of_item(self, item: Made, scope: Scope, inline: dict[str, syntax.Expr]) -> list[syntax.Stmt]:
        statements: list[syntax.Stmt] = []
        if item.statement is not None and item.statement.place not in self.commented:
            self.commented.add(item.statement.place)
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
        """Write ``def step(h, x_t): …`` and ``h, outs = jax.lax.scan(step, h, x)``."""
        assert item.scan is not None
        ends = ends_of(item.scan)
        for each in item.rounds:
            each.expression = with_inlined(each.expression, inline)
        made, inner = inlined(live(item.rounds, ends), ends)
        scan = with_inlined_ends(item.scan, {**inline, **inner})

        def statements(inside: Scope) -> list[syntax.Stmt]:
            inside.count_uses(made, ends_of(scan))
            return [statement for statement, _ in self._located(made, inside, {**inline, **inner})]

        if not isinstance(self.call, ModuleCall):
            raise Unreachable(self.call.key, "goes round a loop")
        function, item.expression = written_loop(replace(item, scan=scan), scope, self.call.function, statements)
        return [function]

    def _written(self, path: str, expression: syntax.Expr) -> syntax.Stmt:
        """``self.steps[...] = steps``."""
        return syntax.Assign(self.scope.resolved(self.lowered.homes[path]), self.scope.resolved(expression))

    def _ends(self) -> list[str]:
        """The values that the results and the buffer writes are computed from."""
        returned = values_in(literal(self.results)) if self._gives_something() else []
        return returned + [name for expression in self.writes.values() for name in values_in(expression)]

    # %% Which values are computed, and in how many statements

    def _made(self, items: Iterable[Item]) -> list[Made]:
        made = []
        for item in items:
            match item:
                case Assignment():
                    ordered = with_numbers_in_front(item.expression, item.place)
                    expression = syntax.transformed(ordered, self._length)
                    outer = outer_statements(item.place, self.function)
                    made.append(Made(item.results, expression, statement_at(item.place), outer=outer))
                case ModuleCall() | FunctionCall():
                    made += self.calls.made_by(item, self.call)
                case Repeated():
                    made.append(loop_statement(item.scan, self._made(item.items)))
        hints(made, self._ends())
        return made

    def _length(self, node: syntax.Node) -> syntax.Node:
        """Replace a length that is known to have no counterpart in the original's source."""
        return node.otherwise if isinstance(node, syntax.SaidLength) and node.key in self.unsaid else node

    def _gives_something(self) -> bool:
        return self.results is not None


def _is_unwritten(expression: syntax.Expr) -> bool:
    return UNWRITTEN in names_in(expression)


def _reads_variable(node: syntax.Node) -> bool:
    """``self.steps[...]``."""
    return isinstance(node, syntax.Subscript) and node.slice == _ALL


_ALL = syntax.Const(...)
