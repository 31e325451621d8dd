"""One call of a module as the body of a ``__call__``: statements with the original's names, in its order."""

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
from port.translation.structure.inline_dce import Made, inlined, needed, tree_with_inlined, with_inlined
from port.translation.structure.kept_comments import is_worth_keeping
from port.translation.structure.name_hints import hints
from port.translation.structure.operand_order import with_numbers_in_front
from port.translation.structure.scan import ends_of, made_of_loop, with_inlined_ends, written_loop
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
    """The body of a call.

    Args:
        call: in the tree of calls.
        lowered: the run.
        tree: how what the module holds is reached.
        bodies: of the calls inside, by their keys.
        functions: those that are called.

    Raises:
        Unreachable: it needs something of its caller that it is not given.
        NoPair: it gives an object that is no tensor and no tree of them.
    """
    known = functions or {}
    names = {function.name for function in known.values()}

    def writer() -> _Writer:
        # The numbers that the root is given are options of the model's.
        is_roots = not call.path and call.method == FORWARD
        scope = (Scope if is_roots else MethodScope)(call, lowered, tree, names)
        return _Writer(call, scope, lowered, bodies, known)

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
        self.call, self.scope, self.lowered = call, scope, lowered
        self.function = written_function(call)
        self.results = call.results
        self.writes = dict(call.writes)
        self.told: set[SourceLocation] = set()
        self.calls = CallStatements(lowered, bodies, functions)

    def body(self, *, keeping_lengths: bool = False, unsaid: frozenset[str] = frozenset()) -> Body:
        self.unsaid = unsaid
        made, inline = inlined(needed(self._made(self.call.items), self._ends()), self._ends())
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
            if item.statement is not None:
                found += scope.name_lengths(item.statement.place)
            place = self._place(item)
            found += [(statement, place) for statement in self._of_item(item, scope, inline)]
        scope.number = len(made)
        return found

    def _place(self, item: Made) -> SourceLocation | None:
        """The original's line that a statement is of: in a function, one of that function's."""
        if item.statement is None:
            return None
        return item.outer[-1].place if item.outer and self.function is not None else item.statement.place

    def _of_item(self, item: Made, scope: Scope, inline: dict[str, syntax.Expr]) -> list[syntax.Stmt]:
        statements: list[syntax.Stmt] = []
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
            raise Unreachable(self.call.key, "goes round a loop")
        function, item.expression = written_loop(replace(item, scan=scan), scope, self.call.function, statements)
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
                    ordered = with_numbers_in_front(item.expression, item.place)
                    expression = syntax.transformed(ordered, self._length)
                    outer = outer_statements(item.place, self.function)
                    made.append(Made(item.results, expression, statement_at(item.place), outer=outer))
                case ModuleCall() | FunctionCall():
                    made += self.calls.made_by(item, self.call)
                case Repeated():
                    made.append(made_of_loop(item.scan, self._made(item.items)))
        hints(made, self._ends())
        return made

    def _length(self, node: syntax.Node) -> syntax.Node:
        """A length that is known not to be said as the original does."""
        return node.otherwise if isinstance(node, syntax.SaidLength) and node.key in self.unsaid else node

    def _gives_something(self) -> bool:
        return self.results is not None


def _is_unwritten(expression: syntax.Expr) -> bool:
    return UNWRITTEN in names_in(expression)


def _reads_variable(node: syntax.Node) -> bool:
    """``self.steps[...]``."""
    return isinstance(node, syntax.Subscript) and node.slice == _ALL


_ALL = syntax.Const(...)
