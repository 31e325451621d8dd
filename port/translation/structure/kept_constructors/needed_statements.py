"""Find the statements of a constructor that create what the written module holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Reads:
    """What code reads: local names, and attributes of ``self``."""

    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)

    def take(self, tree: ast.AST) -> None:
        """Add what an expression or a statement reads."""
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=owner, attr=name) if _is_self(owner):
                    self.attributes.add(name)
                case ast.Name(id=name, ctx=ast.Load()) if name != "self":
                    self.names.add(name)


def with_needed(
    definition: ast.FunctionDef,
    attributes: set[str],
    methods: set[str],
    tensors: Mapping[str, Reads],
    modules: Sequence[object] = (),
) -> ast.FunctionDef:
    """Remove statements that nothing needs from a function.

    The order of statements is ignored: an assignment stays if its name is read anywhere.

    Args:
        definition: the function's tree; it is changed.
        attributes: the attributes of ``self`` that are needed; grows by those that the remaining statements read.
        methods: the methods of ``self`` that create some of these.
        tensors: attributes that are parameters or buffers → what their written form reads.
        modules: the instances that ``self`` became.
    """
    _Needed(definition, attributes, methods, tensors, modules).leave()
    return definition


class _Needed:
    """Finds the statements of a function that are needed."""

    def __init__(
        self,
        definition: ast.FunctionDef,
        attributes: set[str],
        methods: set[str],
        tensors: Mapping[str, Reads],
        modules: Sequence[object],
    ) -> None:
        self.definition, self.methods, self.tensors, self.modules = definition, methods, tensors, modules
        self.reads = Reads(attributes=attributes)
        self.kept: set[ast.stmt] = set()

    def leave(self) -> None:
        """Remove all other statements."""
        own, reads = own_names(self.definition), self.reads
        while True:
            before = len(reads.names), len(reads.attributes), len(self.kept)
            for statement in self.definition.body:
                self._look(statement)
                reads.names &= own
            if before == (len(reads.names), len(reads.attributes), len(self.kept)):
                break
        self.definition.body = _only(self.definition.body, self.kept)

    def _look(self, statement: ast.stmt) -> bool:
        """Decide whether a statement is needed; if so, keep it and add what it reads."""
        inside = [part for block in blocks_of(statement) for part in block]
        if inside:
            looked = [self._look(part) for part in inside]  # at all of them
            needed = any(looked)
            needed = needed or (isinstance(statement, ast.FunctionDef) and statement.name in self.reads.names)
        else:
            needed = self._is_needed(statement)
        if needed:
            self.kept.add(statement)
            if isinstance(statement, ast.FunctionDef):
                self.kept.update(inside)
            self._take_reads(statement)
        return needed

    def _take_reads(self, statement: ast.stmt) -> None:
        match _tensor_made(statement):
            case str(name), made if name in self.tensors:
                self.reads.names |= self.tensors[name].names
                self.reads.attributes |= self.tensors[name].attributes
                if isinstance(made, ast.IfExp):
                    self.reads.take(made.test)
                return
        for tree in _head(statement):
            self.reads.take(tree)

    def _is_needed(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Return(value=value):
                return value is not None
            case ast.Raise() | ast.Assert():
                return True
            case ast.Continue() | ast.Break() | ast.Global() | ast.Nonlocal():
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method)) as call):
                if _is_super(owner):
                    return True
                if method.endswith("_") and not method.startswith("_"):
                    return False  # it changes a tensor's numbers, whose initialisation was observed
                if _is_self(owner):
                    if method in _REGISTER:
                        return any(
                            isinstance(each, ast.Constant) and each.value in self.reads.attributes
                            for each in call.args[:1]
                        )
                    return method in ("add_module", "append", "extend", "insert", "update") or method in self.methods
                return self._is_any(owner)
            case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[owner, *_])):
                return _is_self(owner) or self._is_any(owner)
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                return any(self._is_any(target) for target in targets)
            case ast.AnnAssign(target=target, value=value):
                return value is not None and self._is_any(target)
            case ast.AugAssign(target=target):
                return self._is_any(target)
        return False

    def _is_any(self, target: ast.expr) -> bool:
        """Whether an assigned or changed target is needed."""
        if isinstance(target, ast.Attribute) and not _is_self(target.value) and self._is_tensor(target):
            return False  # a tensor's numbers; shared tensors were observed
        match target:
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return any(self._is_any(item) for item in items)
            case ast.Name(id=name):
                return name in self.reads.names
            case ast.Attribute(value=owner, attr=name) if _is_self(owner):
                return name in self.reads.attributes
            case ast.Attribute(attr="data"):
                return False  # a tensor's numbers
            case ast.Attribute(value=inside) | ast.Subscript(value=inside) | ast.Starred(value=inside):
                return self._is_any(inside)
            case ast.Call(func=function):
                return self._is_any(function)
        return False

    def _is_tensor(self, node: ast.expr) -> bool:
        """Whether a dotted name, ``self.embed.weight``, was a tensor in every instance."""
        return bool(self.modules) and all(isinstance(_followed(node, each), Tensor) for each in self.modules)


_REGISTER = ("register_buffer", "register_parameter")


def _tensor_made(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The attribute of ``self`` that a statement creates, and its value."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr=name)], value=value) if _is_self(owner):
            return name, value
        case ast.AnnAssign(target=ast.Attribute(value=owner, attr=name), value=ast.expr() as value) if _is_self(owner):
            return name, value
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=owner, attr=method), args=[ast.Constant(value=str(name)), value, *_]
            )
        ) if _is_self(owner) and method in _REGISTER:
            return name, value
    return None


def _followed(node: ast.expr, start: object) -> object:
    """Follow attributes and items from ``self``; None where that is impossible."""
    match node:
        case ast.Name(id="self"):
            return start
        case ast.Attribute(value=value, attr=name):
            return getattr(_followed(value, start), name, None)
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)):
            try:
                return _followed(value, start)[key]  # type: ignore[index]
            except (TypeError, LookupError):
                return None
    return None


def _head(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement reads itself, without its nested statements."""
    if isinstance(statement, ast.FunctionDef):
        yield from statement.body
        return
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "finalbody", "handlers"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield part


def _only(statements: list[ast.stmt], kept: set[ast.stmt]) -> list[ast.stmt]:
    made = [statement for statement in statements if statement in kept]
    for statement in made:
        if isinstance(statement, ast.FunctionDef):
            continue
        for block in blocks_of(statement):
            block[:] = _only(block, kept)
        if not getattr(statement, "body", True):
            statement.body = [ast.Pass()]  # type: ignore[attr-defined]
    return made


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement: the body of a loop, the branches of an ``if``."""
    found = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    found += [handler.body for handler in getattr(statement, "handlers", [])]
    return [block for block in found if block]


def attributes_assigned(definition: ast.FunctionDef) -> set[str]:
    """The attributes of ``self`` that a function creates."""
    found = set()
    for node in ast.walk(definition):
        match node:
            case ast.Attribute(value=owner, attr=name, ctx=ast.Store()) if _is_self(owner):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=owner, attr="register_buffer" | "register_parameter" | "add_module"),
                args=[ast.Constant(value=str(name)), *_],
            ) if _is_self(owner):
                found.add(name)
    return found


def own_names(definition: ast.FunctionDef) -> set[str]:
    """A function's local names: its parameters and assigned names."""
    own = {node.arg for node in ast.walk(definition.args) if isinstance(node, ast.arg)}
    names = (node for node in ast.walk(definition) if isinstance(node, ast.Name))
    return own | {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
