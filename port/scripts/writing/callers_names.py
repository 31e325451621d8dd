"""Rewrite a function's expression in its caller's names: ``range(self.epochs)`` becomes ``range(args.n)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from port.errors import UsageError
from port.scripts.writing.own_calls import Function, argument_for, family, may_be, option_names, set_by
from port.scripts.writing.taken_statements import names_loaded, targets_of


@dataclass(frozen=True)
class PlaceInFunction:
    """The location of an expression.

    Attributes:
        function: the enclosing function.
        owner: the class that the function is a method of.
        before: the statements of the function that run before it.
        call: the call of the function; None if it is not visible.
    """

    function: Function
    owner: ast.ClassDef | None
    before: Sequence[ast.stmt]
    call: ast.Call | None

    @property
    def this(self) -> str | None:
        """The parameter that a method is called on."""
        is_free = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in self.function.decorator_list)
        names = [one.arg for one in (*self.function.args.posonlyargs, *self.function.args.args)]
        return names[0] if self.owner is not None and names and not is_free else None


def in_callers_names(
    expression: ast.expr, place: PlaceInFunction, tree: ast.Module, scope: Sequence[ast.stmt]
) -> ast.expr:
    """Rewrite the expression, with parts from elsewhere replaced by their expressions.

    Args:
        expression: an expression in a function.
        place: its location.
        tree: the script.
        scope: the body in which the function is called.

    Raises:
        UsageError: a part of it is not visible there.
    """
    callers = _Callers(tree, scope)

    def said(node: ast.Name | ast.Attribute) -> ast.expr:
        try:
            return callers.said(node, place)
        except _UnseenError:
            raise UsageError(
                f"line {place.function.lineno}: how often {place.function.name} goes through the data, "
                f"`{ast.unparse(node)}`, is not visible where it is called: write the loop around train_step"
            ) from None

    found: ast.expr = _Replaced(said, place.this).visit(expression)
    return found


class _UnseenError(Exception):
    """A value that is not the same everywhere in the source."""


class _Callers:
    """Rewrites expressions in the names of a body."""

    def __init__(self, tree: ast.Module, scope: Sequence[ast.stmt]) -> None:
        self._tree, self._scope, self._options = tree, scope, option_names(tree)
        inner = next((one for one in ast.walk(tree) if isinstance(one, Function) and one.body is scope), None)
        self._local: set[str] = set()
        """Names with another meaning in the body than at the script's top level."""
        if inner is not None:
            self._local = {name for one in scope for name in _stored(one)} | _parameters(inner)

    def said(self, node: ast.expr, place: PlaceInFunction) -> ast.expr:
        """Rewrite an expression at a location."""
        match node:
            case ast.Name(name):
                return self._variable(node, name, place)
            case ast.Attribute(ast.Name(this), name) if this == place.this:
                return self._attribute(name, place)
        found: ast.expr = _Replaced(lambda part: self.said(part, place), place.this).visit(node)
        return found

    def _variable(self, node: ast.Name, name: str, place: PlaceInFunction) -> ast.expr:
        found = _set_last(name, place.before, _stored)
        if found is not None:
            value, before = found
            return self.said(value, replace(place, before=before))
        if name not in _parameters(place.function):
            return self._everywhere(node)
        return self._argument(name, place)

    def _argument(self, name: str, place: PlaceInFunction) -> ast.expr:
        if place.call is None or name == place.this:
            raise _UnseenError
        is_bound = place.this is not None and not self._is_class(place.call.func)
        value = argument_for(name, place.call, place.function, self._options, is_bound=is_bound)
        if value is None:
            raise _UnseenError
        is_default = value in (*place.function.args.defaults, *place.function.args.kw_defaults)
        return value if self._is_in_scope(place.call) and not is_default else self._everywhere(value)

    def _is_class(self, called: ast.expr) -> bool:
        """Whether a method is called on its class with the object as argument: ``Trainer.fit(trainer)``."""
        names = [one.name for one in ast.walk(self._tree) if isinstance(one, ast.ClassDef)]
        return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in names

    def _is_in_scope(self, call: ast.Call) -> bool:
        if any(node is call for one in self._scope for node in ast.walk(one)):
            return True
        at_top = [one for one in self._tree.body if not isinstance(one, Function | ast.ClassDef)]
        if any(node is call for one in at_top for node in ast.walk(one)):
            return False
        raise _UnseenError  # it is in the names of another function

    def _everywhere(self, node: ast.expr) -> ast.expr:
        """Keep a name of the script's top level; it must mean the same in the body."""
        if names_loaded(node) & self._local:
            raise _UnseenError
        return node

    def _attribute(self, name: str, place: PlaceInFunction) -> ast.expr:
        """Rewrite ``self.epochs`` as the value set by ``__init__``, if nothing else sets it."""
        assert place.owner is not None
        owner = place.owner
        init = next((one for one in owner.body if isinstance(one, Function) and one.name == "__init__"), None)
        if self._is_set_besides(name, owner, init):
            raise _UnseenError
        found = _set_last(name, init.body, _attributes_stored) if init is not None else None
        if found is not None and init is not None:
            return self.said(found[0], PlaceInFunction(init, owner, found[1], self._made(owner)))
        of_class = _set_last(name, owner.body, _stored)
        if of_class is None:
            raise _UnseenError
        return self._everywhere(of_class[0])

    def _is_set_besides(self, name: str, owner: ast.ClassDef, init: Function | None) -> bool:
        """Whether an attribute is set outside ``__init__``: in another method, or by ``trainer.epochs = 3``."""
        classes = [one for one in ast.walk(self._tree) if isinstance(one, ast.ClassDef)]
        others = {
            id(node) for one in classes if one.name not in family(owner.name, self._tree) for node in ast.walk(one)
        }
        own = set() if init is None else {id(node) for node in ast.walk(init)}
        return any(
            isinstance(node, ast.Attribute)
            and node.attr == name
            and not isinstance(node.ctx, ast.Load)
            and id(node) not in own
            and not (id(node) in others and isinstance(node.value, ast.Name) and node.value.id == "self")
            and may_be(node.value, owner.name, self._tree)
            for node in ast.walk(self._tree)
        )

    def _made(self, owner: ast.ClassDef) -> ast.Call | None:
        """The one call that makes the object."""
        names = family(owner.name, self._tree)
        calls = [one for one in ast.walk(self._tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
        found = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id in names]
        return found[0] if len(found) == 1 else None


def _parameters(function: Function) -> set[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {one.arg for one in every if one is not None}


def _set_last(
    name: str, statements: Sequence[ast.stmt], stored: Callable[[ast.stmt], Iterator[str]]
) -> tuple[ast.expr, Sequence[ast.stmt]] | None:
    """The value assigned by the last statement that sets a name, and the statements before it; None if none does.

    Raises:
        _UnseenError: the assignment is conditional, or not a plain assignment.
    """
    for place in reversed(range(len(statements))):
        if name not in stored(statements[place]):
            continue
        match statements[place]:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                of_name = [part for one, part in set_by(target, value) if one == name]
                is_whole = isinstance(target, ast.Name | ast.Attribute) or (of_name and of_name[0] is not value)
                if len(of_name) == 1 and is_whole:
                    return of_name[0], statements[:place]
        raise _UnseenError
    return None


def _stored(statement: ast.stmt) -> Iterator[str]:
    """Variables that a statement sets, nested ones included."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(name, ctx) if not isinstance(ctx, ast.Load):
                yield name
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.alias(name, asname):
                yield asname or name.partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def _attributes_stored(statement: ast.stmt) -> Iterator[str]:
    """Attributes that a statement sets, of any object."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.attr


class _Replaced(ast.NodeTransformer):
    """Replaces variables, and the attributes of one variable; unchanged nodes are returned as they are.

    Args:
        said: returns the replacement.
        this: the variable whose attributes are replaced as a whole.
    """

    def __init__(self, said: Callable[[ast.Name | ast.Attribute], ast.expr], this: str | None) -> None:
        self._said, self._this, self._bound = said, this, frozenset[str]()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a variable, unless the expression itself binds it."""
        return node if node.id in self._bound else self._said(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace ``self.epochs``; visit the parts of any other attribute."""
        is_of_this = isinstance(node.value, ast.Name) and node.value.id == self._this and self._this not in self._bound
        return self._said(node) if is_of_this else self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Return a new node if a part of it changes."""
        before, self._bound = self._bound, self._bound | _bound_in(node)
        fields = dict(ast.iter_fields(node))
        new = {name: self._visited(value) for name, value in fields.items()}
        self._bound = before
        if all(_is_same(new[name], fields[name]) for name in fields):
            return node
        return ast.fix_missing_locations(ast.copy_location(type(node)(**new), node))

    def _visited(self, value: object) -> object:
        if isinstance(value, list):
            return [self.visit(one) if isinstance(one, ast.AST) else one for one in value]
        return self.visit(value) if isinstance(value, ast.AST) else value


def _bound_in(node: ast.AST) -> set[str]:
    """The names that a comprehension or a lambda binds."""
    match node:
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return {name for one in node.generators for name in targets_of(one.target)}
        case ast.Lambda(arguments):
            return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return set()


def _is_same(new: object, old: object) -> bool:
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))
    return new is old
