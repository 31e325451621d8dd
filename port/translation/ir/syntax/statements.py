"""Statements that are written."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir.syntax.node import Expr, Node, Stmt


@dataclass(frozen=True, slots=True)
class Comment(Stmt):
    """A line of comment, as it stands: ``# half of the channels``."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.startswith("#") or "\n" in self.text:
            raise ValueError(f"{self.text!r} is no line of comment")


@dataclass(frozen=True, slots=True)
class Docstring(Stmt):
    text: str


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class AnnAssign(Stmt):
    target: Expr
    annotation: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class ExprStmt(Stmt):
    """An expression for what it does: a call."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    value: Expr


@dataclass(frozen=True, slots=True)
class Raise(Stmt):
    value: Expr


@dataclass(frozen=True, slots=True)
class Pass(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class If(Stmt):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class For(Stmt):
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of a function.

    Attributes:
        name: its own.
        annotation: its type, if that is written.
        default: what it is where it is not given.
        kind: ``""``, ``"*"``, ``"**"``; or ``"name"`` for one that is given by its name alone.
    """

    name: str
    annotation: Expr | None = None
    default: Expr | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FunctionDef(Stmt):
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    returns: Expr | None = None


@dataclass(frozen=True, slots=True)
class MethodDef(FunctionDef):
    """A method of the class in whose ``__call__`` it stands, until the class is written."""


@dataclass(frozen=True, slots=True)
class ClassDef(Stmt):
    name: str
    bases: tuple[Expr, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Lines(Stmt):
    """Statements of the original's own, as text: ``_part0_`` in it stands for the first of the expressions."""

    text: str
    parts: tuple[Expr, ...] = ()
