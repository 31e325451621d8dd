"""One call of a module as the body of a ``__call__``: statements with the original's names, in its order."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from port.translation.code import HELD, VALUE, code, held, literal, renamed, values_in
from port.translation.graph import Place, Value, each_value
from port.translation.lengths import length
from port.translation.naming import RESERVED, hints
from port.translation.placed import UNWRITTEN, Assignment, Placed
from port.translation.simplifying import merged_subscripts, with_whole_lists
from port.translation.sources import Statement, statement_at
from port.translation.structure import Call
from port.translation.tree import ModuleTree


class Unreachable(Exception):
    """A call that cannot be written as one: its code needs what only the caller has."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


@dataclass
class Body:
    """A function's body.

    Attributes:
        parameters: names of the parameters that it needs, with their stars.
        statements: what it does.
        returns: what it gives.
        modes: whether it does one thing in training and another in evaluation.
    """

    parameters: list[str]
    statements: list[ast.stmt]
    returns: ast.expr | None
    modes: bool = False


@dataclass
class _Made:
    """A statement to be: what it makes, and how."""

    results: Any
    expression: ast.expr
    statement: Statement | None
    names: dict[str, str] = field(default_factory=dict)


Bodies = dict[str, Body]


def _holds_dict(results: Any) -> bool:
    parts = results if isinstance(results, tuple | list) else ()
    return isinstance(results, dict) or any(map(_holds_dict, parts))


def write_body(call: Call, placed: Placed, tree: ModuleTree, bodies: Bodies) -> Body:
    """The body of a call.

    Args:
        call: in the tree of calls.
        placed: the run.
        tree: how what the module holds is reached.
        bodies: of the calls inside, by their paths.

    Raises:
        Unreachable: it needs something of its caller that it is not given.
    """
    return _Writer(call, placed, tree, bodies).body()


class _Writer:
    def __init__(self, call: Call, placed: Placed, tree: ModuleTree, bodies: Bodies) -> None:
        self.call, self.placed, self.tree, self.bodies = call, placed, tree, bodies
        self.results = call.results
        self.writes = dict(call.writes)
        self.names: dict[str, ast.expr] = {}  # of a value → how it is called now
        self.bound: dict[str, str] = {}  # a variable → the value that it holds
        self.last_use: dict[str, int] = {}
        self.used_parameters: list[str] = []
        self.parameter_of: dict[str, str] = {}
        self.parameters = self._parameters()
        self.number = 0

    def body(self) -> Body:
        made = self._inlined(self._made())
        self._count_uses(made)
        statements: list[ast.stmt] = []
        told: set[Place] = set()
        for self.number, item in enumerate(made):
            if item.statement is not None and item.statement.place not in told:
                told.add(item.statement.place)
                statements += [_comment(line) for line in item.statement.comments if _is_worth_keeping(line)]
            if item.statement is not None and _is_unwritten(item.expression):
                statements += [_comment(f"# {line.strip()}") for line in item.statement.text.splitlines()]
            statements += self._aliases(item)
            expression = self._resolved(item.expression)
            targets = self._targets(item)
            statements.append(ast.Expr(expression) if targets is None else ast.Assign([targets], expression, lineno=0))
        self.number = len(made)
        returns = self._resolved(literal(self.results)) if self._gives_something() else None
        written = [self._written(path, expression) for path, expression in self.writes.items()]
        if written and returns is not None and any(_reads_variable(node) for node in ast.walk(returns)):
            # What is given is read before the buffers are written to.
            statements.append(ast.Assign([ast.Name("result")], returns, lineno=0))
            returns = ast.Name("result")
        statements += written
        order = [name for name in self.parameters if name in self.used_parameters]
        return Body(order, statements, returns)

    def _written(self, path: str, expression: ast.expr) -> ast.stmt:
        """``self.steps[...] = steps``."""
        owner, _, name = path.rpartition(".")
        place = ast.Subscript(held(owner, name), ast.Constant(...), ast.Load())
        return ast.Assign([self._resolved(place)], self._resolved(expression), lineno=0)

    def _ends(self) -> list[str]:
        """The values that what it gives, and what it writes, are made of."""
        given = values_in(literal(self.results)) if self._gives_something() else []
        return given + [name for expression in self.writes.values() for name in values_in(expression)]

    # %% What is made, and in how many statements

    def _made(self) -> list[_Made]:
        made = []
        for item in self.call.items:
            if isinstance(item, Assignment):
                made.append(_Made(item.results, item.expression, statement_at(item.place)))
            else:
                results = self._as_values(item)
                made.append(_Made(results, self._called(item), statement_at(item.place)))
        hints(made)
        return self._needed(made)

    def _as_values(self, call: Call) -> Any:
        def value(expression: Any) -> Any:
            if isinstance(expression, ast.Name) and expression.id.startswith(VALUE):
                name = expression.id[1:]
                inner = {value.name for step in call.items for value in _made_by(step)}
                return self.placed.values[name] if name in inner else None
            return None

        def walk(results: Any) -> Any:
            match results:
                case ast.expr():
                    return value(results)
                case dict():
                    return {key: walk(item) for key, item in results.items()}
                case tuple() | list():
                    return tuple(map(walk, results))
                case _:
                    return None

        results = walk(call.results)
        if _holds_dict(results):
            raise Unreachable(call.path, "gives a dict")
        found = [value.name for value in each_value(results)]
        if len(found) != len(set(found)):
            raise Unreachable(call.path, "gives one array twice")
        return results

    def _called(self, call: Call) -> ast.expr:
        arguments: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        for name in self.bodies[call.path].parameters:
            given = call.parameters[name.lstrip("*")]
            if name.startswith("**"):
                keywords += [ast.keyword(key, literal(item)) for key, item in given.items()]
            elif name.startswith("*"):
                arguments += [literal(item) for item in given]
            else:
                arguments.append(literal(given))
        return ast.Call(held(call.path), arguments, keywords)

    def _needed(self, made: list[_Made]) -> list[_Made]:
        """Without what nobody reads. A layer that is called for nothing may still count its batches: it stays."""
        wanted = set(self._ends())
        kept: list[_Made] = []
        for item in reversed(made):
            results = {value.name for value in each_value(item.results)}
            calls = any(
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith(HELD)
                for node in ast.walk(item.expression)
            )
            if results & wanted or (calls and results):
                kept.insert(0, item)
                wanted |= set(values_in(item.expression))
        return kept

    def _inlined(self, made: list[_Made]) -> list[_Made]:
        """With values that have no name of their own, and one reader, written where they are read."""
        uses: Counter[str] = Counter(self._ends())
        for item in made:
            uses.update(values_in(item.expression))
        inline: dict[str, ast.expr] = {}
        kept = []
        for item in made:
            item.expression = _with(item.expression, inline)
            single = item.results[0] if isinstance(item.results, tuple) and len(item.results) == 1 else item.results
            is_one = isinstance(single, Value)
            if is_one and not item.names and (uses[single.name] == 1 or _is_short(item.expression)):
                inline[single.name] = item.expression
            else:
                kept.append(item)
        if self._gives_something():
            self.results = _tree_with(self.results, inline)
        self.writes = {path: _with(expression, inline) for path, expression in self.writes.items()}
        return kept

    def _gives_something(self) -> bool:
        return self.results is not None

    def _count_uses(self, made: list[_Made]) -> None:
        for number, item in enumerate(made):
            for name in values_in(item.expression):
                self.last_use[name] = number
        for name in self._ends():
            self.last_use[name] = len(made)

    # %% Names

    def _parameters(self) -> dict[str, ast.expr]:
        """The parameters; what they hold is called by them."""
        import inspect

        signature = inspect.signature(type(self.call.module).forward)
        found: dict[str, ast.expr] = {}
        for name, given in self.call.parameters.items():
            kind = signature.parameters[name].kind if name in signature.parameters else None
            stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(kind, "")  # type: ignore[call-overload]
            own = f"{name}_" if name in RESERVED else name
            self._bind_tree(f"{stars}{name}", ast.Name(own), given)
            found[f"{stars}{name}"] = ast.Name(own)
        return found

    def _bind_tree(self, parameter: str, expression: ast.expr, given: Any) -> None:
        match given:
            case ast.Name(id=name) if name.startswith(VALUE):
                value = self.placed.values.get(name[1:])
                if name[1:] not in self.names and value is not None:
                    self.names[name[1:]] = expression
                    self.parameter_of[name[1:]] = parameter
                    if isinstance(expression, ast.Name):
                        self.bound[expression.id] = name[1:]
            case dict():
                for key, item in given.items():
                    self._bind_tree(parameter, ast.Subscript(expression, literal(key), ast.Load()), item)
            case tuple() | list():
                for number, item in enumerate(given):
                    self._bind_tree(parameter, ast.Subscript(expression, ast.Constant(number), ast.Load()), item)

    def _resolved(self, expression: ast.expr) -> ast.expr:
        """An expression with the names that the values have at this moment."""
        made: ast.expr = renamed(merged_subscripts(expression), self._name_of)
        lengths = {
            name.lstrip("*"): len(given)
            for name, given in self.call.parameters.items()
            if isinstance(given, list | tuple)
        }
        return with_whole_lists(made, lengths)

    def _name_of(self, node: ast.Name) -> ast.expr:
        if node.id.startswith(HELD):
            path, _, attribute = node.id[1:].partition("|")
            reached = self.tree.reach(self.call.path, path, attribute)
            if reached is None:
                raise Unreachable(self.call.path, f"reads {path}")
            return reached
        name = node.id[1:]
        value = self.placed.values.get(name)
        if value is not None and value.shape is None:
            return self._length(value)
        if name not in self.names:
            raise Unreachable(self.call.path, f"reads a value that it is not given: {name}")
        self._note_parameter(name)
        return self.names[name]

    def _note_parameter(self, name: str) -> None:
        parameter = self.parameter_of.get(name)
        if parameter is not None and parameter not in self.used_parameters:
            self.used_parameters.append(parameter)

    def _length(self, value: Value) -> ast.expr:
        own = {expression.id for expression in self.parameters.values() if isinstance(expression, ast.Name)}
        arrays = [(name, self.placed.values[name]) for name in self.names if name in self.placed.values]
        # What is called as a parameter first: it is there from the beginning.
        arrays.sort(key=lambda array: getattr(self.names[array[0]], "id", "") not in own)

        def read(symbol: str) -> ast.expr | None:
            for name, array in arrays:
                if array.shape is not None and symbol in array.shape:
                    self._note_parameter(name)
                    axis = self.placed.layouts[array].axis(array.shape.index(symbol))
                    return code("x.shape[k]", x=self.names[name], k=axis)
                if array.shape is None and array.length == symbol:
                    self._note_parameter(name)
                    return self.names[name]
            return None

        made = length(value.length, read)
        if made is None:
            raise Unreachable(self.call.path, f"needs the length {value.length}")
        return made

    def _aliases(self, item: _Made) -> list[ast.stmt]:
        """``identity = x`` where the original reads ``identity`` and the value is called ``x``."""
        if item.statement is None:
            return []
        found: list[ast.stmt] = []
        for name in dict.fromkeys(values_in(item.expression)):
            called = self.names.get(name)
            if not isinstance(called, ast.Name) or called.id in item.statement.names:
                continue
            other = next((a for a, of in item.statement.aliases.items() if of == called.id), None)
            if other in item.statement.names and self._is_free(other, name):
                found.append(ast.Assign([ast.Name(other)], called, lineno=0))
                self._note_parameter(name)
                self._bind(other, name)
        return found

    def _targets(self, item: _Made) -> ast.expr | None:
        def target(tree: Any) -> ast.expr:
            match tree:
                case Value():
                    if tree.name not in self.last_use:
                        return ast.Name("_")
                    wanted = item.names.get(tree.name) or _plain_name(item.expression)
                    name = wanted
                    count = 2
                    while not self._is_free(name, tree.name):
                        name = f"{wanted}{count}"
                        count += 1
                    self._bind(name, tree.name)
                    return ast.Name(name)
                case tuple() | list():
                    return ast.Tuple([target(part) for part in tree], ast.Load())
                case _:
                    return ast.Name("_")

        if not any(value.name in self.last_use for value in each_value(item.results)):
            return None
        results = item.results
        if isinstance(results, dict):
            raise Unreachable(self.call.path, "a dict is given by a module inside")
        return target(results[0] if isinstance(results, tuple) and len(results) == 1 else results)

    def _is_free(self, name: str | None, value: str) -> bool:
        if name is None or name in RESERVED:
            return False
        holder = self.bound.get(name)
        return holder is None or holder == value or self.last_use.get(holder, -1) <= self.number

    def _bind(self, name: str, value: str) -> None:
        before = self.bound.get(name)
        if before is not None and before != value and _is_called(self.names.get(before), name):
            del self.names[before]
        self.bound[name] = value
        self.names[value] = ast.Name(name)


def _is_called(expression: ast.expr | None, name: str) -> bool:
    return isinstance(expression, ast.Name) and expression.id == name


def _reads_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value is ...


def _made_by(item: Assignment | Call) -> list[Value]:
    if isinstance(item, Assignment):
        return list(each_value(item.results))
    return [value for step in item.items for value in _made_by(step)]


def _with(expression: ast.expr, inline: dict[str, ast.expr]) -> ast.expr:
    def of(node: ast.Name) -> ast.expr:
        return inline.get(node.id[1:], node) if node.id.startswith(VALUE) else node

    made: ast.expr = renamed(expression, of)
    return made


def _tree_with(tree: Any, inline: dict[str, ast.expr]) -> Any:
    match tree:
        case ast.expr():
            return _with(tree, inline)
        case dict():
            return {key: _tree_with(item, inline) for key, item in tree.items()}
        case tuple() if hasattr(tree, "_fields"):
            return type(tree)(*(_tree_with(item, inline) for item in tree))
        case tuple() | list():
            return type(tree)(_tree_with(item, inline) for item in tree)
        case _:
            return tree


def _is_short(expression: ast.expr) -> bool:
    """Whether it may be written twice: something that is only read."""
    return isinstance(expression, ast.Constant) or (
        isinstance(expression, ast.Subscript)
        and isinstance(expression.value, ast.Name)
        and expression.value.id.startswith(HELD)
    )


def _plain_name(expression: ast.expr) -> str:
    """A name for what has none: what it is called by, or the operator's."""
    callee = expression.func if isinstance(expression, ast.Call) else expression
    match callee:
        case ast.Name(id=name) if name.startswith(HELD):
            found = name[1:].partition("|")[0].rpartition(".")[2]
        case ast.Attribute(attr=name):
            found = {"reshape": "reshaped", "transpose": "transposed", "swapaxes": "swapped"}.get(name, name)
        case _:
            found = "value"
    return found if found.isidentifier() and found not in RESERVED else "value"


def _is_unwritten(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == UNWRITTEN for node in ast.walk(expression))


def _comment(line: str) -> ast.stmt:
    return ast.Expr(ast.Name(line))


_LAYOUT = re.compile(
    r"\b[NBbn],\s*[Cc]\b|NCHW|\bBCHW\b|[(\[]\w+(, *[\w*()]+)+[)\]]|type:|noqa|pragma|TODO|FIXME|TorchScript"
)


def _is_worth_keeping(line: str) -> bool:
    """A comment that still holds: not one of torch's layout, nor one for a tool."""
    return not _LAYOUT.search(line)
