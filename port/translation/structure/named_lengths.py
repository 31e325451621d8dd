"""Lengths with names in the written code, from the original's own statements: ``B, T, C = x.shape``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.graph import Size, Value
from port.translation.ir.layout import Layout
from port.translation.ir.length_expr import length
from port.translation.ir.origin import LengthOf, NamedLength
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.symbolic_lengths import same
from port.translation.structure.length_statements import UNNAMED, LengthStatement, length_statements

_PRODUCT = re.compile(r"\w+(\*\w+)*")


@dataclass(frozen=True)
class _Named:
    """A length with a name, or an item of a list of lengths: ``input_shape[0]``.

    Attributes:
        size: a number or a formula.
        axis: torch's axis, counted from the front.
        statement: the statement that assigns it.
        value: the array that has this length.
    """

    size: Size
    axis: int
    rank: int
    statement: LengthStatement
    value: str


class NamedLengths:
    """The names of lengths while a body is written from top to bottom.

    Args:
        function: the original's function.
    """

    def __init__(self, function: Any) -> None:
        self._waiting = list(length_statements(function))
        self._named: dict[str, _Named] = {}

    def copied(self) -> NamedLengths:
        """A copy for a nested function, which assigns no names of lengths itself."""
        made = NamedLengths(None)
        made._named = dict(self._named)
        return made

    def __contains__(self, name: str) -> bool:
        return name in {*self}

    def __iter__(self) -> Iterator[str]:
        return map(_variable, self._named)

    def forget(self, name: str) -> None:
        """Forget the lengths of a variable that is reassigned."""
        self._named = {text: known for text, known in self._named.items() if _variable(text) != name}

    def count_in(self, name: str) -> int | None:
        """The number of lengths in a list; None for a variable that is no list of lengths."""
        return sum(text.startswith(f"{name}[") for text in self._named) or None

    def due(self, place: SourceLocation | None) -> list[LengthStatement]:
        """Take the statements due before a place; at the end (None), those outside all branches."""
        found = []
        for statement in self._waiting:
            first, last = statement.block
            if place is None:
                is_due = statement.is_outermost
            else:
                is_due = place.file == statement.place.file and statement.last_line < place.line
                is_due = is_due and first <= place.line <= last
            if is_due:
                found.append(statement)
        self._waiting = [each for each in self._waiting if each not in found]
        return found

    def take(
        self,
        statement: LengthStatement,
        array: syntax.Expr,
        value: Value,
        layout: Layout,
        held: str,
        is_free: Callable[[str], bool],
    ) -> syntax.Stmt | None:
        """Write the statement that names the lengths of an array; None where no name can be assigned.

        Args:
            statement: the original's statement.
            array: the expression for the array.
            value: the original's tensor.
            layout: the layout of the tensor's axes in the array.
            held: the name of the array's value.
            is_free: whether a variable name is available.
        """
        rank = value.rank
        known = statement.axes_of(rank)
        if known is None or layout.folded is not None or value.shape is None:
            return None
        lie = [layout.axis(axis) for _, axis in known]
        if statement.is_list and lie != list(range(lie[0], lie[0] + len(lie))):
            return None
        pairs = [(name if name != UNNAMED and is_free(_variable(name)) else UNNAMED, axis) for name, axis in known]
        named = {name: axis for name, axis in pairs if name != UNNAMED}
        if not named:
            return None
        for name, axis in named.items():
            self._named[name] = _Named(value.shape[axis], axis, rank, statement, held)
        pairs.sort(key=lambda pair: layout.axis(pair[1]))
        axes = [layout.axis(axis) for _, axis in pairs]
        if statement.is_list:
            return syntax.Assign(syntax.Name(statement.names[0]), _run(array, axes, rank))
        names = tuple(syntax.Name(name) for name, _ in pairs)
        if statement.is_one:
            return syntax.Assign(names[0], _one(array, axes[0], rank, statement, layout))
        if axes == list(range(axes[0], axes[0] + len(axes))):
            return syntax.Assign(syntax.Tuple(names), _run(array, axes, rank))
        kept = [(name, axis) for name, axis in zip(names, axes, strict=True) if name.id != UNNAMED]
        read = [code("x.shape[k]", x=array, k=axis) for _, axis in kept]
        if len(kept) == 1:
            return syntax.Assign(kept[0][0], read[0])
        return syntax.Assign(syntax.Tuple(tuple(name for name, _ in kept)), syntax.Tuple(tuple(read)))

    def of_origin(self, origin: LengthOf) -> NamedLength | None:
        """The name of a length that the original reads; None where it has none."""
        for name, known in self._named.items():
            first, last = known.statement.place, known.statement.last_line
            is_there = origin.location.file == first.file and first.line <= origin.location.line <= last
            is_there = is_there and origin.tensor == known.statement.tensor
            is_axis = origin.axis in (known.axis, known.axis - known.rank)
            if is_there and is_axis and isinstance(known.size, int):
                return NamedLength(name, known.size)
        return None

    def of_formula(self, formula: Size) -> syntax.Expr | None:
        """A symbolic length in terms of the names; None where they do not suffice."""

        def read(part: str) -> syntax.Expr | None:
            name = next((name for name, known in self._named.items() if _is(known.size, part)), None)
            return None if name is None else code(name)

        made = length(formula, read) if isinstance(formula, str) else None
        if made is None or not _PRODUCT.fullmatch(str(formula)):
            return made
        # torch orders the factors in its own way.
        order = {name: place for place, name in enumerate(self._named)}
        factors = sorted(_factors(made), key=lambda each: order.get(syntax.source(each), -1))
        return reduce(lambda left, right: syntax.BinOp(left, "*", right), factors)

    def of_product(self, formula: Size) -> syntax.Expr | None:
        """A symbolic length, if it is a named length or a product of named lengths."""
        return self.of_formula(formula) if isinstance(formula, str) and _PRODUCT.fullmatch(formula) else None

    def array_of(self, name: str) -> str | None:
        """The array whose length a name holds."""
        return next((known.value for text, known in self._named.items() if _variable(text) == name), None)


def _factors(product: syntax.Expr) -> list[syntax.Expr]:
    match product:
        case syntax.BinOp(left, "*", right):
            return [*_factors(left), *_factors(right)]
    return [product]


def _variable(text: str) -> str:
    """The variable part of a name: ``input_shape`` of ``input_shape[0]``."""
    return text.partition("[")[0]


def _is(size: Size, formula: str) -> bool:
    return isinstance(size, str) and same(size, formula)


def _one(array: syntax.Expr, axis: int, rank: int, statement: LengthStatement, layout: Layout) -> syntax.Expr:
    """Read one length; from the end, as ``x.shape[-1]``, where the original counts from the end."""
    assert isinstance(statement.axes, tuple)
    from_the_end = statement.axes[0] < 0 and (layout.is_torchs or axis == rank - 1)
    return code("x.shape[k]", x=array, k=axis - rank if from_the_end else axis)


def _run(array: syntax.Expr, axes: list[int], rank: int) -> syntax.Expr:
    """Read ``x.shape``, or a slice of it."""
    first, last = axes[0], axes[-1] + 1
    if len(axes) == rank:
        return code("x.shape", x=array)
    if first == 0:
        return code("x.shape[:k]", x=array, k=last)
    return (
        code("x.shape[j:]", x=array, j=first - rank) if last == rank else code("x.shape[j:k]", x=array, j=first, k=last)
    )
