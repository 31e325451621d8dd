"""Of which kind an object is whose method a constructor calls."""

from __future__ import annotations

import ast
from typing import Any

from port.translation.frontend.construction.construction_calls import ConstructionCalls, Place


class MethodCalls:
    """Says the kinds.

    Args:
        owner: the class around; None for a function.
    """

    def __init__(self, owner: type | None) -> None:
        self._owner = owner

    def kind(self, base: ast.expr, calls: ConstructionCalls, place: Place) -> Any:
        """The class of the object before the point; None where that is not known."""
        if isinstance(base, ast.Name) and base.id == "self":
            return self._owner
        return calls.owners.get(place)
