"""Expressions that are written. Fields are called as in Python's own syntax trees; an operator is what is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from port.translation.ir.origin import Origin
from port.translation.ir.origin_numbers import origin_of, plain
from port.translation.ir.syntax.node import Expr, Node

# %% What stands for something until it is written


@dataclass(frozen=True, slots=True)
class Use(Expr):
    """A value, until it has a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Attr(Expr):
    """The module at a path of the original, or an attribute of its twin, until it is known how it is reached."""

    path: str
    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Item(Expr):
    """``tree[key]`` where the tree is a tuple, a list or a dict: no axis of an array, so no index is merged into it."""

    tree: Expr
    key: Expr


@dataclass(frozen=True, slots=True)
class SaidLength(Expr):
    """A length as the original says it, and how it is read where that cannot be said: ``T``, or ``q.shape[1]``.

    Attributes:
        said: as the original says it.
        otherwise: what is written where the names in it are not there.
        key: tells it from others of one run.
    """

    said: Expr
    otherwise: Expr
    key: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Hole(Expr):
    """A place to be filled: of a template, or where sources differ."""

    name: str


# %% Python's


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A variable's name, and nothing else: what means more has a node of its own."""

    id: str

    def __post_init__(self) -> None:
        if not self.id.isidentifier():
            raise ValueError(f"{self.id!r} is no name")


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A number, a string, a bool, None or ``...``; 1, 1.0 and True are three.

    Attributes:
        value: itself.
        origin: where it comes from, if that is known; of no account to whether two are equal.
    """

    value: Any
    origin: Origin | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        known = origin_of(self.value)
        if known is not None:
            object.__setattr__(self, "value", plain(self.value))
            object.__setattr__(self, "origin", self.origin or known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[type, Any]:
        # By their text -0.0 is not 0.0, and nan is nan.
        return type(self.value), repr(self.value) if isinstance(self.value, float | complex) else self.value


@dataclass(frozen=True, slots=True)
class Attribute(Expr):
    value: Expr
    attr: str


@dataclass(frozen=True, slots=True)
class Subscript(Expr):
    value: Expr
    slice: Expr


@dataclass(frozen=True, slots=True)
class Slice(Expr):
    lower: Expr | None = None
    upper: Expr | None = None
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class Keyword(Node):
    """``arg=value``, or ``**value`` where there is no name."""

    arg: str | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    func: Expr
    args: tuple[Expr, ...] = ()
    keywords: tuple[Keyword, ...] = ()


@dataclass(frozen=True, slots=True)
class Starred(Expr):
    value: Expr


@dataclass(frozen=True, slots=True)
class Tuple(Expr):
    elts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class List(Expr):
    elts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Dict(Expr):
    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class UnaryOp(Expr):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class BinOp(Expr):
    left: Expr
    op: str
    right: Expr


@dataclass(frozen=True, slots=True)
class BoolOp(Expr):
    """``a and b and c``."""

    op: str
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """``a < b <= c``."""

    left: Expr
    ops: tuple[str, ...]
    comparators: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class IfExp(Expr):
    test: Expr
    body: Expr
    orelse: Expr


@dataclass(frozen=True, slots=True)
class Lambda(Expr):
    parameters: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """``for target in iter if …``."""

    target: Expr
    iter: Expr
    ifs: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class ListComp(Expr):
    elt: Expr
    generators: tuple[Comprehension, ...]


@dataclass(frozen=True, slots=True)
class GeneratorExp(Expr):
    elt: Expr
    generators: tuple[Comprehension, ...]
