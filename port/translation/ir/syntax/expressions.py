"""Expression nodes. Fields have the names of Python's `ast`; operators are strings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from port.translation.ir.origin import Origin
from port.translation.ir.origin_numbers import origin_of, plain
from port.translation.ir.syntax.node import Expr, Node

# %% Placeholders


@dataclass(frozen=True, slots=True)
class Use(Expr):
    """A read of a value, until the value has a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Attr(Expr):
    """The module at a path of the original, or an attribute of its twin, until its ``self.…`` is known."""

    path: str
    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Item(Expr):
    """``tree[key]`` for a tuple, a list or a dict; unlike an array's index, it is never merged with another index."""

    tree: Expr
    key: Expr


@dataclass(frozen=True, slots=True)
class SaidLength(Expr):
    """A length in two forms: the original's expression, ``T``, or a read from an array, ``q.shape[1]``.

    Attributes:
        said: the original's expression.
        otherwise: the form to emit where the names in it are not in scope.
        key: identifies the length within a run.
    """

    said: Expr
    otherwise: Expr
    key: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Hole(Expr):
    """A hole to fill: in a template, or where sources differ."""

    name: str


# %% Python


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A variable's name."""

    id: str

    def __post_init__(self) -> None:
        if not self.id.isidentifier():
            raise ValueError(f"{self.id!r} is not a name")


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A number, a string, a bool, None or ``...``; 1, 1.0 and True are different constants.

    Attributes:
        value: the value.
        origin: a number's origin, if known; not compared.
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
        # Compared by text, -0.0 differs from 0.0, and nan equals nan.
        return type(self.value), repr(self.value) if isinstance(self.value, float | complex) else self.value


@dataclass(frozen=True, slots=True)
class Attribute(Expr):
    """``value.attr``."""

    value: Expr
    attr: str


@dataclass(frozen=True, slots=True)
class Subscript(Expr):
    """``value[slice]``."""

    value: Expr
    slice: Expr


@dataclass(frozen=True, slots=True)
class Slice(Expr):
    """``lower:upper:step``."""

    lower: Expr | None = None
    upper: Expr | None = None
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class Keyword(Node):
    """``arg=value``, or ``**value`` without a name."""

    arg: str | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """``func(*args, **keywords)``."""

    func: Expr
    args: tuple[Expr, ...] = ()
    keywords: tuple[Keyword, ...] = ()


@dataclass(frozen=True, slots=True)
class Starred(Expr):
    """``*value``."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Tuple(Expr):
    """``(a, b)``."""

    elts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class List(Expr):
    """``[a, b]``."""

    elts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Dict(Expr):
    """``{key: value}``."""

    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class UnaryOp(Expr):
    """``-operand``."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class BinOp(Expr):
    """``left + right``."""

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
    """``body if test else orelse``."""

    test: Expr
    body: Expr
    orelse: Expr


@dataclass(frozen=True, slots=True)
class Lambda(Expr):
    """``lambda parameters: body``."""

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
    """``[elt for … in …]``."""

    elt: Expr
    generators: tuple[Comprehension, ...]


@dataclass(frozen=True, slots=True)
class GeneratorExp(Expr):
    """``(elt for … in …)``."""

    elt: Expr
    generators: tuple[Comprehension, ...]
