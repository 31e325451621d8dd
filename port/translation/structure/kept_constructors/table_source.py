"""Compute tables as the original's constructors do: ``pe = pe.at[:, 0::2].set(jnp.sin(position * div_term))``."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import torch

from port.parity.sides.precision import default_dtype
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.known import Known, Owner
from port.translation.structure.kept_constructors.names import NOTHING
from port.translation.structure.kept_constructors.needed_statements import Reads, own_names
from port.translation.structure.kept_constructors.table_operators import (
    attribute,
    called,
    function_written,
    method_written,
)

StandsFor = Callable[[ast.expr], Any]
"""Resolves a name or dotted name to its value."""
Plain = Callable[[ast.expr], ast.expr]
"""Writes an expression of plain values."""

_CLOSE = 1e-12
"""Tolerance between both sides in float64, relative and absolute."""
_MADE = "table_that_is_made"
_OPTIONS = {"dtype", "device", "requires_grad", "persistent"}


def table_sources(
    definition: ast.FunctionDef, function: FunctionType, known: Known, owner: Owner
) -> dict[str, TableSource]:
    """Find the buffers that a constructor computes with statements that JAX can express.

    Args:
        definition: the constructor's tree.
        function: the constructor.
        known: the construction.
        owner: its class.
    """
    own, found = own_names(definition), {}

    def stands_for(node: ast.expr) -> Any:
        return known.names.stands_for(node, function, own)

    if owner.original.__init__ is not function:  # type: ignore[misc]
        return {}
    for statement in definition.body:
        name, value = _registered(statement, stands_for)
        if value is None or name not in owner.tables:
            continue
        buffers = [(module, module._buffers[name]) for module in owner.instances]
        is_floating = all(buffer.is_floating_point() for _, buffer in buffers)
        try:
            made = TableSource(definition, statement, value, stands_for, is_floating=is_floating)
            for module, buffer in buffers:
                made.check(known.calls.arguments.get(id(module), {}), function.__globals__, module, buffer)
        except CannotKeep:
            continue
        found[name] = made
    return found


def _registered(statement: ast.stmt, stands_for: StandsFor) -> tuple[str, ast.expr | None]:
    """The name and the value of the buffer that a statement registers; a value of None where it registers none."""
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"),
                args=[ast.Constant(value=str(name)), value, *_],
            )
        ):
            return name, value
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
            value=ast.Call(func=function, args=[value, *_]),
        ) if stands_for(function) is torch.nn.Buffer:
            return name, value
    return "", None


class TableSource:
    """The statements of a constructor that compute a buffer.

    Args:
        definition: the constructor's tree.
        statement: the statement that registers the buffer.
        value: the registered value.
        stands_for: resolves names, to recognise torch's functions.
        is_floating: whether the buffer has a floating-point dtype.

    Raises:
        CannotKeep: a statement is of an unsupported kind.
    """

    def __init__(
        self,
        definition: ast.FunctionDef,
        statement: ast.stmt,
        value: ast.expr,
        stands_for: StandsFor,
        *,
        is_floating: bool,
    ) -> None:
        self._stands_for, self.is_floating = stands_for, is_floating
        self._tensors: set[str] = set()
        before = definition.body[: definition.body.index(statement)]
        for each in before:
            if isinstance(each, ast.Assign | ast.AugAssign) and self._is_tensor(each.value):
                self._tensors |= _changed_by(each)
        if not self._is_tensor(value):
            raise CannotKeep("a buffer is not a table that its constructor computes")
        self.value = value
        needed = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        kept: list[ast.stmt] = []
        for each in reversed(before):
            stored = _base(each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None))
            if not _changed_by(each) & needed & self._tensors:
                continue
            if not isinstance(each, ast.Assign | ast.AugAssign) or stored is None:
                raise CannotKeep(f"a table is computed by {ast.unparse(each)}")
            kept.append(each)
            needed |= {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
        self.statements: list[ast.stmt] = kept[::-1]

    @property
    def reads(self) -> Reads:
        """What the statements and the value read."""
        reads = Reads()
        for each in (*self.statements, self.value):
            reads.take(each)
        reads.names |= {_base(each.targets[0]) or "" for each in self.statements if isinstance(each, ast.Assign)}
        return reads

    def written(self, statement: ast.stmt, plain: Plain) -> ast.stmt:
        """Translate one of the statements."""
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                made = ast.BinOp(ast.Name(name, ast.Load()), operator, self.expression(value, plain))
                return ast.Assign([ast.Name(name, ast.Store())], made)
            case ast.Assign(targets=[ast.Name() as target], value=value):
                return ast.Assign([target], self.expression(value, plain))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index)], value=value):
                at = ast.Subscript(attribute(ast.Name(name, ast.Load()), "at"), self._index(index, plain), ast.Load())
                made_so = called(attribute(at, "set"), self.expression(value, plain))
                return ast.Assign([ast.Name(name, ast.Store())], made_so)
        raise CannotKeep(f"a table is computed by {ast.unparse(statement)}")

    def start(self, plain: Plain) -> ast.expr:
        """The buffer's initial value; a floating-point buffer is cast to the parameters' dtype."""
        made = self.expression(self.value, plain)
        if not self.is_floating:
            return made
        match made:
            case ast.Call(func=ast.Attribute(attr="array") as function, args=[number]):
                return called(function, number, ast.Name("param_dtype", ast.Load()))
        return called(attribute(made, "astype"), ast.Name("param_dtype", ast.Load()))

    def check(self, arguments: Mapping[str, Any], around: Mapping[str, Any], module: Any, expected: Any) -> None:
        """Check that the statements reproduce the buffer, and that their translation agrees with them in float64.

        Args:
            arguments: the constructor's arguments.
            around: the function's global names.
            module: the constructed module.
            expected: the module's buffer.

        Raises:
            CannotKeep: the results differ, or a statement fails.
        """
        import jax
        import jax.numpy as jnp

        names = {**around, **arguments, "self": module}
        made = [*self.statements, ast.Assign([ast.Name(_MADE, ast.Store())], self.value)]
        written = [self.written(each, lambda node: node) for each in made]
        try:
            original = _carried_out(made, names)
            with default_dtype("float64"):
                double = _carried_out([_InDouble(self._stands_for).visit(copy.deepcopy(each)) for each in made], names)
            with jax.enable_x64(True):
                ours = np.asarray(_carried_out(written, {**names, "jnp": jnp}))
        except Exception as error:  # the original's code may raise anything
            raise CannotKeep(f"a table cannot be computed in JAX: {error}") from None
        if not torch.equal(original, expected.detach()):
            raise CannotKeep("a buffer is not the result of its constructor's statements")
        theirs = double.numpy()
        is_kind = ours.dtype.kind in "if" if self.is_floating else ours.dtype.kind == expected.numpy().dtype.kind
        if theirs.shape != ours.shape or not is_kind:
            raise CannotKeep("a table computed in JAX has another shape or dtype")
        if not np.allclose(ours, theirs, rtol=_CLOSE, atol=_CLOSE, equal_nan=True):
            raise CannotKeep("a table computed in JAX has other numbers")

    # %% Expressions

    def expression(self, node: ast.expr, plain: Plain) -> ast.expr:
        """Translate an expression.

        Raises:
            CannotKeep: it contains something unsupported.
        """
        if not self._is_tensor(node):
            return plain(node)

        def inner(part: ast.expr) -> ast.expr:
            return self.expression(part, plain)

        match node:
            case ast.Name():
                return node
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return type(node)([*map(inner, items)], ast.Load())
            case ast.BinOp(left=left, op=operator, right=right):
                return ast.BinOp(inner(left), operator, inner(right))
            case ast.UnaryOp(op=operator, operand=operand):
                return ast.UnaryOp(operator, inner(operand))
            case ast.Subscript(value=value, slice=index):
                return ast.Subscript(inner(value), self._index(index, plain), ast.Load())
            case ast.Call(func=func, args=args, keywords=keywords):
                name = self._torchs(func)
                others = {each.arg: each.value for each in keywords if each.arg not in _OPTIONS}
                if name is not None:
                    return function_written(
                        name, list(map(inner, args)), {key: inner(each) for key, each in others.items()}
                    )
                if isinstance(func, ast.Attribute) and self._is_tensor(func.value) and not others:
                    return method_written(inner(func.value), func.attr, list(map(inner, args)))
        raise CannotKeep(f"a table is computed by {ast.unparse(node)}")

    def _index(self, node: ast.expr, plain: Plain) -> ast.expr:
        match node:
            case ast.Tuple(elts=items):
                return ast.Tuple([self._index(item, plain) for item in items], ast.Load())
            case ast.Slice(lower=lower, upper=upper, step=step):
                ends = (None if end is None else self.expression(end, plain) for end in (lower, upper, step))
                return ast.Slice(*ends)
        return self.expression(node, plain)

    def _torchs(self, func: ast.expr) -> str | None:
        """The name of a torch function; None for anything else."""
        found = self._stands_for(func)
        name = getattr(found, "__name__", "")
        return name if found is not None and getattr(torch, name, None) is found else None

    def _is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor: it contains a call of torch or the name of a tensor."""
        return any(
            (isinstance(each, ast.Name) and each.id in self._tensors)
            or (isinstance(each, ast.Call) and self._torchs(each.func) is not None)
            for each in ast.walk(node)
        )


class _InDouble(ast.NodeTransformer):
    """Replaces single by double precision in torch statements: ``dtype=torch.float``, ``.float()``."""

    def __init__(self, stands_for: StandsFor) -> None:
        self._stands_for = stands_for

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if self._stands_for(node) is torch.float32:
            node.attr = "float64"
        elif node.attr == "float" and self._stands_for(node) in (None, NOTHING):
            node.attr = "double"
        return node


def _carried_out(statements: Sequence[ast.stmt], names: Mapping[str, Any]) -> Any:
    """Run statements, and return the table."""
    own = dict(names)
    text = "\n".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(each))) for each in statements)
    exec(text, own)
    return own[_MADE]


def _changed_by(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns, or whose values it changes in place."""
    found = set()
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method.endswith("_"):
                found.add(name)
    return found


def _base(target: ast.expr | None) -> str | None:
    """The name that is assigned or written into."""
    match target:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return name
    return None
