"""Find the calls of a script's own functions, and their arguments by parameter."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

from port.scripts.observing.statements import parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(tree: ast.Module) -> Iterator[tuple[Function, ast.ClassDef | None, str]]:
    """The top-level functions and methods of a script, with their class and qualified name."""
    for one in tree.body:
        if isinstance(one, Function):
            yield one, None, one.name
        elif isinstance(one, ast.ClassDef):
            yield from ((inner, one, f"{one.name}.{inner.name}") for inner in one.body if isinstance(inner, Function))


def is_call_of(call: ast.Call, function: str, file: str) -> bool:
    """Whether a call may call a function.

    ``model.train()`` does not call a function ``train``, nor ``Trainer.train`` if ``model`` is made as something else;
    an object whose construction is unknown may be anything.

    Args:
        call: a call in a script.
        function: the function's qualified name: ``train``, ``main.<locals>.train``, ``Trainer.fit``.
        file: the call's file.
    """
    outer, _, name = function.rpartition(".")
    owner = outer.rpartition(".")[2]
    is_method = owner not in ("", "<locals>")
    match call.func:
        case ast.Name(called):
            return called == name and not is_method
        case ast.Attribute(value, called) if called == name:
            return may_be(value, owner, parsed(file)) if is_method else _is_module(value, Path(file))
    return False


def _is_module(node: ast.expr, file: Path) -> bool:
    """Whether an expression names a file's module: ``engine`` of ``engine.train(…)``."""
    name = file.parent.name if file.stem == "__init__" else file.stem
    match node:
        case ast.Name(last) | ast.Attribute(attr=last):
            return last == name
    return False


def may_be(node: ast.expr, owner: str, tree: ast.Module) -> bool:
    """Whether an expression may be an instance of a class, or the class, by everything that its names are set to."""
    return _may_be(node, frozenset(family(owner, tree)), tree, frozenset())


def _may_be(node: ast.AST, classes: frozenset[str], tree: ast.Module, seen: frozenset[str]) -> bool:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            if name in ("self", "cls") or name in classes or name in seen:
                return name not in seen
            if isinstance(node, ast.Name) and name in _imported(tree):
                return False
            values = _values(tree).get(name)
            return values is None or any(_may_be(value, classes, tree, seen | {name}) for value in values)
        case ast.Call(ast.Name(called)) if called in _definitions(tree):
            made = _definitions(tree)[called]
            is_maker = any(isinstance(one, ast.Name) and one.id in classes for one in ast.walk(made))
            return called in classes or (is_maker and isinstance(made, Function))
        case ast.Call(func, arguments):  # a library returns such an object only if it takes one
            passed = [*arguments, *(word.value for word in node.keywords)]
            passed += [func.value] if isinstance(func, ast.Attribute) else []
            return any(_may_be(one, classes, tree, seen) for one in passed if not isinstance(one, ast.Constant))
        case ast.Constant():
            return False
    return any(_may_be(child, classes, tree, seen) for child in ast.iter_child_nodes(node))


def family(owner: str, tree: ast.Module) -> list[str]:
    """A class and its subclasses in a script."""
    found = [owner]
    for one in found:  # the list grows during iteration
        for name, made in _definitions(tree).items():
            bases = made.bases if isinstance(made, ast.ClassDef) else []
            if name not in found and any(isinstance(base, ast.Name) and base.id == one for base in bases):
                found.append(name)
    return found


@cache
def _definitions(tree: ast.Module) -> dict[str, Function | ast.ClassDef]:
    return {one.name: one for one in ast.walk(tree) if isinstance(one, Function | ast.ClassDef)}


@cache
def _imported(tree: ast.Module) -> set[str]:
    names = [one for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for one in node.names]
    return {one.asname or one.name.partition(".")[0] for one in names}


@cache
def _values(tree: ast.Module) -> Mapping[str, list[ast.expr]]:
    """All values that variables and attributes are set to in a script."""
    found: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for one in ast.walk(tree):
        match one:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for name, part in set_by(target, value):
                        found[name].append(part)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                for name, part in set_by(target, value):
                    found[name].append(part)
    return found


def set_by(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """The names and attributes that an assignment sets, each with its value; ``a, b = c, d`` is taken apart."""
    match target, value:
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
            if len(targets) == len(values) and not any(isinstance(one, ast.Starred) for one in (*targets, *values)):
                return [found for pair in zip(targets, values, strict=True) for found in set_by(*pair)]
        case ((ast.Name(name) | ast.Attribute(attr=name)), _):
            return [(name, value)]
    inner = [one for one in ast.walk(target) if isinstance(one, ast.Name | ast.Attribute)]
    return [(one.id if isinstance(one, ast.Name) else one.attr, value) for one in inner]


def argument_for(
    name: str, call: ast.Call, function: Function, options: Collection[str], *, is_bound: bool = False
) -> ast.expr | None:
    """A call's argument for a parameter, or the default; None if it is not visible.

    Args:
        name: the parameter's name.
        call: a call of the function.
        function: its definition.
        options: names of the script's options, which ``**vars(args)`` passes.
        is_bound: whether the first parameter is the object that it is called on.
    """
    arguments = function.args
    by_place = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(zip(reversed(by_place), reversed(arguments.defaults), strict=False))
    defaults |= {one.arg: it for one, it in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if it}
    by_place = by_place[1:] if is_bound else by_place
    plain = next((n for n, one in enumerate(call.args) if isinstance(one, ast.Starred)), len(call.args))
    if name in by_place[:plain]:
        return call.args[by_place.index(name)]
    is_named = name not in {one.arg for one in arguments.posonlyargs}
    words = {word.arg: word.value for word in call.keywords if is_named and word.arg is not None}
    if name in words:
        return words[name]
    if plain < len(call.args) and name in by_place:
        return None  # it may be among the unpacked arguments
    unpacked = [word.value for word in call.keywords if word.arg is None and is_named]
    if len(unpacked) > 1:
        return None
    default = defaults.get(name)
    return _unpacked(name, unpacked[0], default, options) if unpacked else default


def _unpacked(name: str, mapping: ast.expr, default: ast.expr | None, options: Collection[str]) -> ast.expr | None:
    """The argument that ``**mapping`` passes for a parameter."""
    match mapping:
        case ast.Dict(keys, values) if all(isinstance(key, ast.Constant) for key in keys):
            said = {key.value: value for key, value in zip(keys, values, strict=True) if isinstance(key, ast.Constant)}
            return said.get(name, default)
        case ast.Call(ast.Name("vars"), [holder]):
            if default is not None and name not in options:
                return default if options else None
            return ast.fix_missing_locations(ast.copy_location(ast.Attribute(holder, name, ast.Load()), mapping))
    if default is not None:
        return None  # whether it holds one is not known
    item = ast.Subscript(mapping, ast.Constant(name), ast.Load())
    return ast.fix_missing_locations(ast.copy_location(item, mapping))


def option_names(tree: ast.Module) -> set[str]:
    """The attributes of a script's options set by argparse."""
    found: set[str] = set()
    for call in ast.walk(tree):
        match call:
            case ast.Call(ast.Attribute(attr="add_argument"), flags, words):
                flags = [word.value for word in words if word.arg == "dest"] or flags
                texts = [one.value for one in flags if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                long = [text for text in texts if text.startswith("--")] or texts
                found.update(text.lstrip("-").replace("-", "_") for text in long[:1])
    return found
