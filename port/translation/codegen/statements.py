"""Render statements as lines of Python; ruff formats them afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from port.translation.ir import syntax
from port.translation.ir.syntax import bare, source

_INDENT = "    "


def text_of(*statements: syntax.Stmt) -> str:
    """Return the source of statements."""
    return "\n".join(_block(statements))


def _block(statements: Iterable[syntax.Stmt]) -> Iterator[str]:
    for statement in statements:
        yield from _lines(statement)


def _inside(statements: Iterable[syntax.Stmt]) -> Iterator[str]:
    return (f"{_INDENT}{line}" if line else "" for line in _block(statements))


def _lines(statement: syntax.Stmt) -> Iterator[str]:
    match statement:
        case syntax.Comment(text):
            yield text
        case syntax.Lines(text, parts):
            for number, part in enumerate(parts):
                text = text.replace(f"_part{number}_", _within(part))
            yield from text.split("\n")
        case syntax.Docstring(text):
            yield from f'"""{text}"""'.split("\n")
        case syntax.If():
            yield from _branches(statement)
        case syntax.For(target, items, body):
            yield f"for {bare(target)} in {source(items)}:"
            yield from _inside(body)
        case syntax.FunctionDef(name, parameters, body, decorators, returns):
            yield ""
            yield from (f"@{source(decorator)}" for decorator in decorators)
            result = "" if returns is None else f" -> {source(returns)}"
            yield f"def {name}({', '.join(_signature(parameters))}){result}:"
            yield from _inside(body)
        case syntax.ClassDef(name, bases, body):
            yield f"class {name}({', '.join(map(source, bases))}):"
            yield from _inside(body)
        case _:
            yield source(statement)


def _within(expression: syntax.Expr) -> str:
    """Return the text of an expression inside another, in parentheses if needed."""
    text = source(expression)
    is_one = isinstance(expression, syntax.Name | syntax.Attribute | syntax.Call | syntax.Const | syntax.Subscript)
    return text if is_one or isinstance(expression, syntax.Tuple | syntax.List | syntax.Dict) else f"({text})"


def _branches(statement: syntax.If) -> Iterator[str]:
    word = "if"
    while True:
        yield f"{word} {source(statement.test)}:"
        yield from _inside(statement.body)
        match statement.orelse:
            case (syntax.If() as statement,):
                word = "elif"
            case ():
                return
            case others:
                yield "else:"
                yield from _inside(others)
                return


def _signature(parameters: Iterable[syntax.Parameter]) -> Iterator[str]:
    """Yield the parameters of a signature: positional ones, ``*args``, keyword-only ones, ``**kwargs``."""
    gathers = False
    for parameter in parameters:
        if parameter.kind == "name" and not gathers:
            yield "*"
        gathers |= parameter.kind in ("*", "name")
        stars = parameter.kind if parameter.kind in ("*", "**") else ""
        annotation = "" if parameter.annotation is None else f": {source(parameter.annotation)}"
        default = "" if parameter.default is None else f"={source(parameter.default)}"
        yield f"{stars}{parameter.name}{annotation}{default}"
