"""Values that a body needs but does not receive; the body is then written in another way."""

from __future__ import annotations

from port.translation.ir.graph import Size


class Unreachable(Exception):
    """A call that cannot be written as a call: its code needs values that only the caller has.

    Attributes:
        key: the callee: a module's path, or `key_of` one of its methods.
    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key


class LostLength(Unreachable):
    """A length that no named array has any more.

    Attributes:
        formula: the length's formula.
        case: the number of the example call that needs it.
    """

    case = 0

    def __init__(self, key: str, why: str, formula: Size) -> None:
        super().__init__(key, why)
        self.formula = formula
