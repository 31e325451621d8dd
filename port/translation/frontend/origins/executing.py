"""Find the expression of the user's source that a frame is executing."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FrameType

Span = tuple[int | None, int | None, int | None, int | None]
"""An expression's first and last line, and first and last column."""

SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""Nodes that have their own scope of variables."""

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
        name: the file's name.
        tree: its syntax tree.
    """

    name: str
    tree: ast.Module

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def spans(self) -> dict[Span, ast.AST]:
        """Span → the innermost node with that span."""
        found: dict[Span, ast.AST] = {}
        for node in ast.walk(self.tree):  # from the outside in
            if isinstance(node, ast.expr | ast.AugAssign):
                found[node.lineno, node.end_lineno, node.col_offset, node.end_col_offset] = node
            match node:
                # For a chained method call on its own line, the call's span begins at the name.
                case ast.Call(ast.Attribute(attr=name) as method) if node.lineno != method.end_lineno:
                    begins = (method.end_col_offset or 0) - len(name)
                    found[method.end_lineno, node.end_lineno, begins, node.end_col_offset] = node
        return found

    def scope_of(self, node: ast.AST, name: str) -> ast.AST | None:
        """Return the innermost enclosing function or comprehension with a code object's name; None if there is none."""
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
    """The expression that a frame is executing.

    Attributes:
        frame: a frame that has not returned.
        file: the file with its code.
        scope: the function or comprehension of its code.
        node: the expression.
    """

    frame: FrameType
    file: SourceFile
    scope: ast.AST
    node: ast.AST


@dataclass(frozen=True, eq=False)
class ProgramPoint:
    """A position in a running function: a node that was executed before, or is being executed."""

    here: Executing
    node: ast.AST

    def at(self, node: ast.AST) -> ProgramPoint:
        """Return the point at another node of the same frame."""
        return ProgramPoint(self.here, node)


class SourceFiles:
    """The source files of frames, each read once: later changes of a file are not seen."""

    def __init__(self) -> None:
        self._files: dict[str, SourceFile | None] = {}
        self._nodes: dict[tuple[CodeType, int], tuple[SourceFile, ast.AST, ast.AST] | None] = {}
        self._spans: dict[CodeType, list[Span]] = {}

    def file(self, name: str) -> SourceFile | None:
        """Return a parsed file; None where it cannot be read or parsed."""
        if name not in self._files:
            linecache.checkcache(name)
            text = "".join(linecache.getlines(name))
            self._files[name] = _parsed(name, text) if text else None
        return self._files[name]

    def executing(self, frame: FrameType) -> Executing | None:
        """Return what a frame is executing; None where its source does not match its code."""
        code = frame.f_code
        key = code, frame.f_lasti
        if key not in self._nodes:
            self._nodes[key] = self._found(code, frame.f_lasti)
        found = self._nodes[key]
        return None if found is None else Executing(frame, found[0], found[1], found[2])

    def point(self, frame: FrameType) -> ProgramPoint | None:
        """Return a frame's current point; None where it is unknown."""
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
        # The columns of recompiled code, such as a method whose branches are selected, are not those of the file.
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
    """Whether a function in the source has the same parameters as a code object."""
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return True
    args = scope.args
    names = [each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg) if each]
    return tuple(names) == code.co_varnames[: len(names)] and "__branches" not in code.co_freevars
