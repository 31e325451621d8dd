"""What a body may need and not be given: it is then written another way."""

from __future__ import annotations

from port.translation.ir.graph import Size


class Unreachable(Exception):
    """A call that cannot be written as one: its code needs what only the caller has.

    Attributes:
        key: of what is called: a module's path, or that of a method of it.
    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key


class LostLength(Unreachable):
    """A length that no array shows any more under the names that there are.

    Attributes:
        formula: of the length.
        case: the number of the example call in which it is needed.
    """

    case = 0

    def __init__(self, key: str, why: str, formula: Size) -> None:
        super().__init__(key, why)
        self.formula = formula
