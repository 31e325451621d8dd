"""Which expression of the user's source a frame is carrying out."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FrameType

Span = tuple[int | None, int | None, int | None, int | None]
"""Of an expression: its first and last line, its first and last column."""

SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""What has variables of its own."""

_UNNAMED = {
    ast.Lambda: "<lambda>",
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
}


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A file's syntax tree.

    Attributes:
        name: of the file.
        tree: of all of it.
    """

    name: str
    tree: ast.Module

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def spans(self) -> dict[Span, ast.AST]:
        """The innermost node at each place."""
        found: dict[Span, ast.AST] = {}
        for node in ast.walk(self.tree):  # from the outside in
            if isinstance(node, ast.expr | ast.AugAssign):
                found[node.lineno, node.end_lineno, node.col_offset, node.end_col_offset] = node
            match node:
                # Of a method that is called on a line of its own, the call begins at the name.
                case ast.Call(ast.Attribute(attr=name) as method) if node.lineno != method.end_lineno:
                    begins = (method.end_col_offset or 0) - len(name)
                    found[method.end_lineno, node.end_lineno, begins, node.end_col_offset] = node
        return found

    def scope_of(self, node: ast.AST, name: str) -> ast.AST | None:
        """The innermost function, or comprehension, of a code's name that a node stands in."""
        here: ast.AST | None = node
        while here is not None:
            if isinstance(here, SCOPES) and _name_of(here) == name:
                return here
            if isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef):
                return None
            here = self.parents.get(here)
        return None


@dataclass(frozen=True, eq=False)
class Executing:
    """What a frame is carrying out.

    Attributes:
        frame: that is not over.
        file: that its code stands in.
        scope: the function, or the comprehension, that the code is of.
        node: the expression.
    """

    frame: FrameType
    file: SourceFile
    scope: ast.AST
    node: ast.AST


@dataclass(frozen=True, eq=False)
class ProgramPoint:
    """Where an expression stands: in a frame, at a node that was carried out before, or is now."""

    here: Executing
    node: ast.AST

    def at(self, node: ast.AST) -> ProgramPoint:
        return ProgramPoint(self.here, node)


class SourceFiles:
    """The sources that frames come from, each read once.

    Whoever holds it sees a file as it was when it was first asked for.
    """

    def __init__(self) -> None:
        self._files: dict[str, SourceFile | None] = {}
        self._nodes: dict[tuple[CodeType, int], tuple[SourceFile, ast.AST, ast.AST] | None] = {}
        self._spans: dict[CodeType, list[Span]] = {}

    def file(self, name: str) -> SourceFile | None:
        """A file; None where it cannot be read, or is no Python."""
        if name not in self._files:
            linecache.checkcache(name)
            text = "".join(linecache.getlines(name))
            self._files[name] = _parsed(name, text) if text else None
        return self._files[name]

    def executing(self, frame: FrameType) -> Executing | None:
        """What a frame is carrying out; None where its source does not say it, as of code that was made otherwise."""
        code = frame.f_code
        key = code, frame.f_lasti
        if key not in self._nodes:
            self._nodes[key] = self._found(code, frame.f_lasti)
        found = self._nodes[key]
        return None if found is None else Executing(frame, found[0], found[1], found[2])

    def point(self, frame: FrameType) -> ProgramPoint | None:
        """The point that a frame is at now."""
        here = self.executing(frame)
        return None if here is None else ProgramPoint(here, here.node)

    def _found(self, code: CodeType, instruction: int) -> tuple[SourceFile, ast.AST, ast.AST] | None:
        if code not in self._spans:
            self._spans[code] = list(code.co_positions())
        spans = self._spans[code]
        place = instruction // 2  # an instruction is two bytes
        file = self.file(code.co_filename)
        if file is None or not 0 <= place < len(spans):
            return None
        node = file.spans.get(spans[place])
        scope = None if node is None else file.scope_of(node, code.co_name)
        # Of code that was compiled otherwise, as a method whose branches are selected, columns are not the file's.
        return None if node is None or scope is None or not _has_variables(scope, code) else (file, scope, node)


@lru_cache(maxsize=64)
def _parsed(name: str, text: str) -> SourceFile | None:
    try:
        return SourceFile(name, ast.parse(text))
    except (SyntaxError, ValueError):
        return None


def _name_of(scope: ast.AST) -> str:
    return getattr(scope, "name", None) or _UNNAMED[type(scope)]  # type: ignore[index]


def _has_variables(scope: ast.AST, code: CodeType) -> bool:
    """Whether a function in the source has the parameters that its code has."""
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return True
    given = scope.args
    names = [
        each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if each
    ]
    return tuple(names) == code.co_varnames[: len(names)] and "__branches" not in code.co_freevars
