"""Which numbers of a composite operator are still those of the operators that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from port.translation.ir.number import KnownNumber, Path, each_number, is_same
from port.translation.ir.origin import DefaultOf
from port.translation.ir.origin_numbers import plain

_VIEWS = ("view", "_unsafe_view")
"""What operators become that give a tensor another shape."""
_OF_THE_SAME = (*_VIEWS, "expand", "permute", "select", "slice", "squeeze", "transpose", "unsqueeze")
"""Operators whose results share the elements of what they are given."""


class NotedOperation:
    """What is noted of a call of an operator.

    Args:
        operator: its name: ``reshape``.
        arguments: by the schema's names.
        numbers: those among them whose origin is known.
        line: where it is called: the file, and the number of the line as text.

    Attributes:
        is_view: whether its result shares the elements of what it is given.
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
        self._given = dict(each_number(dict(arguments)))
        sizes = arguments.get("sizes")
        self._count = len(sizes) if isinstance(sizes, list | tuple) else 0

    def has(self, numbers: Mapping[Path, Any]) -> bool:
        """Whether it is given just these numbers."""
        return self._given.keys() == numbers.keys() and all(
            is_same(plain(self._given[path]), plain(number)) for path, number in numbers.items()
        )

    def of_part(self, operator: str, arguments: Mapping[str, Any]) -> dict[Path, KnownNumber]:
        """The numbers of the operator itself, or of one that it has become.

        Args:
            operator: the name of the one that is there now.
            arguments: of that one.
        """
        if operator.removesuffix("_") == self.operator:
            return self._numbers
        # A default of the one is none of the other's.
        given = {path: number for path, number in self._numbers.items() if not isinstance(number.origin, DefaultOf)}
        if operator not in _VIEWS:
            return given
        if self.operator == "reshape":
            return {("size", *path[1:]): number for path, number in given.items() if path[0] == "shape"}
        return self._unflattened(given, len(arguments["size"])) if self.operator == "unflatten" else {}

    def _unflattened(self, given: Mapping[Path, KnownNumber], rank: int) -> dict[Path, KnownNumber]:
        """Of ``unflatten``, whose lengths stand in the place of one, with those of the other axes around them."""
        if ("dim",) not in given:
            return {}
        axis = int(given["dim",].value)
        first = axis if axis >= 0 else rank - self._count + 1 + axis
        return {("size", first + int(path[1])): number for path, number in given.items() if path[0] == "sizes"}
