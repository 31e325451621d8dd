"""Carry the numbers of a composite operator over to the operators that it is decomposed into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from port.translation.ir.number import KnownNumber, Path, each_number, is_same
from port.translation.ir.origin import DefaultOf
from port.translation.ir.origin_numbers import plain

_VIEWS = ("view", "_unsafe_view")
"""The operators that reshaping operators are decomposed into."""
_OF_THE_SAME = (*_VIEWS, "expand", "permute", "select", "slice", "squeeze", "transpose", "unsqueeze")
"""Operators whose results are views of their operand."""


class NotedOperation:
    """A recorded call of an operator.

    Args:
        operator: the operator's name: ``reshape``.
        arguments: its arguments, by the schema's names.
        numbers: the numbers among them whose origin is known.
        line: where it is called: the file, and the line number as text.

    Attributes:
        is_view: whether its result is a view of its operand.
    """

    def __init__(
        self,
        operator: str,
        arguments: Mapping[str, Any],
        numbers: Mapping[Path, KnownNumber],
        line: tuple[str, str] = ("", ""),
    ) -> None:
        self.operator, self._numbers, self.line = operator.removesuffix("_"), dict(numbers), line
        self.is_view = self.operator in _OF_THE_SAME
        self._passed = dict(each_number(dict(arguments)))
        sizes = arguments.get("sizes")
        self._count = len(sizes) if isinstance(sizes, list | tuple) else 0

    def has(self, numbers: Mapping[Path, Any]) -> bool:
        """Whether its numeric arguments are exactly these."""
        return self._passed.keys() == numbers.keys() and all(
            is_same(plain(self._passed[path]), plain(number)) for path, number in numbers.items()
        )

    def of_part(self, operator: str, arguments: Mapping[str, Any]) -> dict[Path, KnownNumber]:
        """Return the numbers of the operator itself, or of one that it was decomposed into.

        Args:
            operator: the name of the operator that is in the graph now.
            arguments: that operator's arguments.
        """
        if operator.removesuffix("_") == self.operator:
            return self._numbers
        # A default of one operator is not a default of the other.
        passed = {path: number for path, number in self._numbers.items() if not isinstance(number.origin, DefaultOf)}
        if operator not in _VIEWS:
            return passed
        if self.operator == "reshape":
            return {("size", *path[1:]): number for path, number in passed.items() if path[0] == "shape"}
        return self._unflattened(passed, len(arguments["size"])) if self.operator == "unflatten" else {}

    def _unflattened(self, passed: Mapping[Path, KnownNumber], rank: int) -> dict[Path, KnownNumber]:
        """Map the lengths of ``unflatten``, which replace one axis, to a ``view``'s full list of lengths."""
        if ("dim",) not in passed:
            return {}
        axis = int(passed["dim",].value)
        first = axis if axis >= 0 else rank - self._count + 1 + axis
        return {("size", first + int(path[1])): number for path, number in passed.items() if path[0] == "sizes"}
