"""Scan over layers: loops over layers, and calls of a Sequential, as a one-layer function under ``nnx.scan``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from port.translation.ir import syntax
from port.translation.ir.expr import code, literal, names_in
from port.translation.structure.layer_stack import LayerStack
from port.translation.structure.live_names import always_assigned, assigned, live_in
from port.translation.structure.written_body import Body


class CannotScan(Exception):
    """A loop that cannot be written as a scan; the message says why."""


PER_LAYER = "PerLayer"  # of port.nn; messages contain its name
_OF_NUMBERS = ("ConcretizationTypeError", "TracerBoolConversionError", "TracerIntegerConversionError")


def said_of(error: Exception) -> str:
    """Summarise in one line what Flax or JAX raised when a scan was tried."""
    if any(cls.__name__ in _OF_NUMBERS for cls in type(error).__mro__) or PER_LAYER in str(error):
        return "its layers differ by a number that controls their code: a condition, a length or an index needs it"
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


_LIFTED = code("nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)")
_STEP, _CARRY = "step", "carry"


def with_scans(body: Body, stacks: Collection[LayerStack], kinds: Mapping[syntax.Expr, str]) -> Body:
    """Replace traversals of stacks by scans.

    Args:
        body: a function's body.
        stacks: the stacks of its class.
        kinds: how it reads a stack → the class of the stack's layers.

    Raises:
        CannotScan: an iteration does not just map some values to those of the next iteration.
    """
    last = () if body.returns is None else (syntax.Return(body.returns),)
    names = names_in(*body.statements, body.returns) | {name.lstrip("*") for name in body.parameters}
    writer = _Writer({stack.held: stack for stack in stacks}, kinds, names)
    bound = {name.lstrip("*") for name in body.parameters}
    statements = writer.block((*body.statements, *last), bound, set())
    match statements[-1:]:
        case [syntax.Return(returned)]:
            return replace(body, statements=tuple(statements[:-1]), returns=returned, places=())
    return replace(body, statements=tuple(statements), places=())


@dataclass
class _Writer:
    """Writes the code of one function.

    Attributes:
        stacks: how it reads a stack → the stack.
        kinds: how it reads a stack → the class of the stack's layers.
        taken: names that are already in use.
    """

    stacks: Mapping[syntax.Expr, LayerStack]
    kinds: Mapping[syntax.Expr, str]
    taken: set[str]

    def block(self, statements: Sequence[syntax.Stmt], bound: set[str], after: set[str]) -> list[syntax.Stmt]:
        """Write a block with scans.

        Args:
            statements: the block's statements.
            bound: names that are bound before them.
            after: names that are read after them.
        """
        made: list[syntax.Stmt] = []
        bound = set(bound)
        for place, statement in enumerate(statements):
            rest = statements[place + 1 :]
            behind = live_in(rest) | (after - always_assigned(rest))
            made += self._statement(statement, bound, behind)
            bound |= always_assigned([statement])
        return made

    def _statement(self, statement: syntax.Stmt, bound: set[str], after: set[str]) -> list[syntax.Stmt]:
        match statement:
            case syntax.For(syntax.Name(layer), held) if held in self.stacks:
                return self._loop(statement, self.stacks[held], layer, bound, after)
            case syntax.For(syntax.Name(layer), syntax.Subscript(held, syntax.Slice(syntax.Const(), None, None))) if (
                held in self.stacks
            ):
                # It starts where the stack does: the layers before it are called separately.
                *_, definition, rounds = self._loop(statement, self.stacks[held], layer, bound, after)
                return [definition, rounds]
            case syntax.For():
                again = after | live_in(statement.body)
                return [replace(statement, body=tuple(self.block(statement.body, bound, again)))]
            case syntax.If():
                branches = (tuple(self.block(part, bound, after)) for part in (statement.body, statement.orelse))
                body, orelse = branches
                return self._calls(replace(statement, body=body, orelse=orelse))
            case syntax.FunctionDef():
                return [statement]
        return self._calls(statement)

    def _loop(
        self, loop: syntax.For, stack: LayerStack, layer: str, bound: set[str], after: set[str]
    ) -> list[syntax.Stmt]:
        """Write a loop as a function and its scan, between loops over the layers outside the stack."""
        for node in syntax.walk(*loop.body):
            match node:
                case syntax.Return() | syntax.Raise() | syntax.MethodDef():
                    raise CannotScan("an iteration may end the loop")
                case syntax.ExprStmt():
                    raise CannotScan(f"an iteration has a side effect: {syntax.source(node)}")
                case syntax.Assign(target) if not _binds_names(target):
                    raise CannotScan(f"an iteration changes an object: {syntax.source(node)}")
        read = live_in(loop.body)
        carried = [name for name in assigned(loop.body) if name in read or name in after]
        if layer in after:
            raise CannotScan(f"the last layer is read after the loop, as {layer}")
        if not carried:
            raise CannotScan("its iterations compute nothing")
        if lost := [name for name in carried if name not in bound]:
            raise CannotScan(f"{', '.join(lost)} is only defined after the first iteration")
        *inner, last = inside = self.block(loop.body, bound | {layer}, after | {*carried})
        if len(carried) == 1 and isinstance(last, syntax.Assign) and last.target == syntax.Name(carried[0]):
            body = (*inner, syntax.Return(last.value))
        else:
            body = (*inside, syntax.Return(_one_or_several(carried)))
        scan = self._scan(stack, layer, carried, body)
        rounds = syntax.Assign(_one_or_several(carried), scan.of(stack, _one_or_several(carried)))
        apart = (_part(stack.held, None, stack.before), _part(stack.held, stack.before + 1, None))
        first, others = (replace(loop, iter=part, body=tuple(inside)) for part in apart)
        made = [first] if stack.before else []
        return [*made, scan.definition, rounds, *([others] if stack.after else [])]

    def _calls(self, statement: syntax.Stmt) -> list[syntax.Stmt]:
        """Replace a statement's calls of a Sequential by scans."""
        definitions: list[syntax.Stmt] = []
        scans: dict[str, _Scan] = {}

        def scanned(node: syntax.Node) -> syntax.Node:
            match node:
                case syntax.Call(held, (argument,), ()) if held in self.stacks:
                    stack = self.stacks[held]
                    kind = self.kinds[held]
                    if kind not in scans:
                        scans[kind] = self._scan(stack, "layer", ["x"], (syntax.Return(code("layer(x)")),))
                        definitions.append(scans[kind].definition)
                    argument = _one_by_one(held, range(stack.before), argument)
                    return _one_by_one(held, range(-stack.after, 0), scans[kind].of(stack, argument))
            return node

        if isinstance(statement, syntax.If):
            test = syntax.transformed(statement.test, scanned)
            return [*definitions, replace(statement, test=test)]
        whole = syntax.transformed(statement, scanned)
        return [*definitions, whole]

    def _scan(self, stack: LayerStack, layer: str, carried: Sequence[str], body: tuple[syntax.Stmt, ...]) -> _Scan:
        step = self._free(_STEP)
        self.taken.add(step)
        array: syntax.Expr = syntax.Attribute(syntax.Name("jax"), "Array")
        if len(carried) == 1:
            value, kind = syntax.Parameter(carried[0], array), array
        else:
            one = self._free(_CARRY)
            value, kind = syntax.Parameter(one, syntax.Name("Any")), syntax.Name("Any")
            body = (syntax.Assign(_one_or_several(carried), syntax.Name(one)), *body)
        taken = (syntax.Parameter(layer, syntax.Name(self.kinds[stack.held])), value)
        return _Scan(syntax.FunctionDef(step, taken, body, (_LIFTED,), kind))

    def _free(self, name: str) -> str:
        return next(each for each in _numbered(name) if each not in self.taken)


@dataclass(frozen=True)
class _Scan:
    """The function of one layer."""

    definition: syntax.FunctionDef

    def of(self, stack: LayerStack, values: syntax.Expr) -> syntax.Expr:
        """The scan of values through a stack."""
        return syntax.Call(syntax.Name(self.definition.name), (stack.run, values))


def _part(held: syntax.Expr, first: int | None, last: int | None) -> syntax.Expr:
    """Some layers of a list: ``self.layers[:1]``."""
    lower, upper = (None if place is None else syntax.Const(place) for place in (first, last))
    return syntax.Subscript(held, syntax.Slice(lower, upper))


def _one_by_one(held: syntax.Expr, places: Sequence[int], argument: syntax.Expr) -> syntax.Expr:
    """Call layers one by one: ``self.layers[1](self.layers[0](x))``."""
    for place in places:
        argument = syntax.Call(syntax.Subscript(held, literal(place)), (argument,))
    return argument


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}{number}"
        number += 1


def _binds_names(target: syntax.Expr) -> bool:
    match target:
        case syntax.Tuple(items) | syntax.List(items):
            return all(map(_binds_names, items))
        case syntax.Starred(value):
            return _binds_names(value)
    return isinstance(target, syntax.Name)


def _one_or_several(names: Sequence[str]) -> syntax.Expr:
    made = tuple(map(syntax.Name, names))
    return made[0] if len(made) == 1 else syntax.Tuple(made)
