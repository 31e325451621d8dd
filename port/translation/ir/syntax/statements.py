"""Statement nodes."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir.syntax.node import Expr, Node, Stmt


@dataclass(frozen=True, slots=True)
class Comment(Stmt):
    """A comment line: ``# half of the channels``."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.startswith("#") or "\n" in self.text:
            raise ValueError(f"{self.text!r} is not a comment line")


@dataclass(frozen=True, slots=True)
class Docstring(Stmt):
    """A docstring; ``text`` is without quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """``target = value``."""

    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class AnnAssign(Stmt):
    """``target: annotation = value``."""

    target: Expr
    annotation: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class ExprStmt(Stmt):
    """An expression statement: a call."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """``return value``."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Raise(Stmt):
    """``raise value``."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Pass(Stmt):
    """``pass``."""


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """``if test: … else: …``; an ``elif`` is an `If` as the only statement of ``orelse``."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """``for target in iter: …``."""

    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of a function.

    Attributes:
        name: the parameter's name.
        annotation: its type, if annotated.
        default: its default, if it has one.
        kind: ``""``, ``"*"``, ``"**"``; or ``"name"`` for a keyword-only parameter.
    """

    name: str
    annotation: Expr | None = None
    default: Expr | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FunctionDef(Stmt):
    """A function definition; ``returns`` is the annotation of its result."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    returns: Expr | None = None


@dataclass(frozen=True, slots=True)
class MethodDef(FunctionDef):
    """A method, inside the class's ``__call__`` until the class is emitted."""


@dataclass(frozen=True, slots=True)
class ClassDef(Stmt):
    """A class definition."""

    name: str
    bases: tuple[Expr, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Lines(Stmt):
    """Statements kept from the original as text, in which ``_part0_`` is a placeholder for the first expression."""

    text: str
    parts: tuple[Expr, ...] = ()
