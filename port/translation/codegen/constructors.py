"""Emit the constructors of classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from port.translation.codegen.imports import Imports
from port.translation.codegen.shorter import runs_of, shortened_calls
from port.translation.codegen.stack_constructions import with_stacks_kept, with_stacks_made
from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted, names_in, worth
from port.translation.structure.argument import Argument
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.constructors import OPTIONS, common_parameters, options_gathered, own_attribute
from port.translation.structure.init_inference.numbers import readable
from port.translation.structure.own_arguments import Configuration
from port.translation.structure.program import Program

S = TypeVar("S", bound=syntax.Stmt)


def constructor(made: FoldedClass, program: Program, imports: Imports) -> list[syntax.Stmt]:
    """Return the constructor of a class; one kept from the original comes with its helpers and class attributes."""
    imports.line("from typing import Any")
    imports.line("import jax.numpy as jnp")
    if made.kept is None:
        return [_written(made, program, imports)]
    functions = with_stacks_kept(made.kept.functions, made.stacked)
    return [imports.read(each) for each in (*made.kept.attributes, *map(shortened, functions))]


def base_of(made: FoldedClass) -> syntax.Expr:
    """Return the base class as an expression."""
    if made.kept is not None:
        return made.kept.base
    return code("nnx.Sequential" if made.is_sequential else "nnx.Module")


def shortened(definition: S) -> S:
    """Shorten the calls in a definition kept from the original."""

    def shorter(statement: syntax.Stmt) -> syntax.Stmt:
        if isinstance(statement, syntax.Lines):
            return replace(statement, parts=tuple(shortened_calls(readable(part), {}) for part in statement.parts))
        return statement

    return syntax.transformed(definition, shorter)


def root_arguments(program: Program, imports: Imports) -> dict[str, str]:
    """Return the source of the arguments with which the root's constructor builds the translated model."""
    return {name: syntax.source(imports.read(value)) for name, value in program.arguments.items()}


def or_pass(statements: Sequence[syntax.Stmt]) -> tuple[syntax.Stmt, ...]:
    """Return the statements, or ``pass`` if there are none."""
    return tuple(statements) or (syntax.Pass(),)


def _written(made: FoldedClass, program: Program, imports: Imports) -> syntax.FunctionDef:
    """Return a generated constructor, which assigns each attribute."""
    names = {other.name: other for other in program.classes}
    constructions, later = with_stacks_made(made.attributes, made.stacked)
    attributes = {name: imports.read(shortened_calls(readable(value), names)) for name, value in constructions.items()}
    attributes = attributes if made.is_sequential else _reusing_attributes(attributes)
    statements: list[syntax.Stmt] = []
    if made.body is not None and made.body.modes:
        statements.append(own_attribute("deterministic", syntax.Const(False)))
    kept = [argument for argument in made.arguments if argument.kept]
    for argument in kept:
        statements.append(own_attribute(argument.name, syntax.Name(argument.name)))
    if OPTIONS in names_in(*attributes.values()):
        statements.append(options_gathered())
    if made.is_sequential:
        call = syntax.Call(code("super().__init__"), runs_of(tuple(attributes.values())))
        statements.append(syntax.ExprStmt(call))
    else:
        statements += [own_attribute(name, value) for name, value in attributes.items()]
    statements += map(imports.read, later)
    if made.is_frozen:
        statements.append(syntax.ExprStmt(imports.read(code("port.nn.frozen(self)"))))
    parameters = (
        syntax.Parameter("self"),
        *(_parameter(argument, program, imports) for argument in made.arguments),
        *map(imports.read, common_parameters()),
    )
    return syntax.FunctionDef("__init__", parameters, or_pass(statements), returns=syntax.Const(None))


def _reusing_attributes(attributes: dict[str, syntax.Expr]) -> dict[str, syntax.Expr]:
    """Reuse computed attributes in later ones: ``self.head_dim`` instead of ``dim // heads``."""
    known: dict[syntax.Expr, syntax.Expr] = {}

    def read(node: syntax.Node) -> syntax.Node:
        return known.get(node, node) if isinstance(node, syntax.Expr) else node

    found = {}
    for name, value in attributes.items():
        found[name] = syntax.transformed(value, read)
        if _is_computed(value):
            known.setdefault(found[name], syntax.Attribute(syntax.Name("self"), name))
    return found


def _is_computed(value: syntax.Expr) -> bool:
    """Whether an expression computes a number from names."""
    match value:
        case syntax.Call(function, arguments, ()) if dotted(function) in _NUMERIC_CALLS:
            return bool(names_in(*arguments))
        case syntax.BinOp(left, _, right):
            calls = (node for node in syntax.walk(value) if isinstance(node, syntax.Call))
            return bool(names_in(left, right)) and all(dotted(call.func) in _NUMERIC_CALLS for call in calls)
    return False


_NUMERIC_CALLS = ("int", "float", "max", "min", "math.sqrt")


def _parameter(argument: Argument, program: Program, imports: Imports) -> syntax.Parameter:
    default = None if argument.default is None else imports.read(argument.default)
    annotation = _annotation(argument, program)
    return syntax.Parameter(argument.name, annotation, default, kind="name" if argument.by_name else "")


def _annotation(argument: Argument, program: Program) -> syntax.Expr:
    return syntax.Name("Any") if argument.is_module else annotation_of(argument.values.values(), program)


def annotation_of(values: Iterable[syntax.Expr], program: Program) -> syntax.Expr:
    """Return the type annotation for an argument that takes one of several constants."""
    configurations = {made.original: made.name for made in program.configurations}

    def kind(value: Any) -> str:
        match value:
            case Configuration(original):
                return configurations.get(original, "Any")
            case tuple() | list() if value:
                inside = {kind(item) for item in value}
                return f"tuple[{inside.pop() if len(inside) == 1 else 'Any'}, ...]"
        return type(value).__name__.replace("NoneType", "None")

    kinds = {kind(worth(value)) for value in values}
    kinds = {"float"} if kinds == {"int", "float"} else kinds
    return code("Any" if "Any" in kinds else " | ".join(sorted(kinds, key=lambda each: (each == "None", each))))
