"""Definitions that kept constructors need besides classes: functions, plain classes, imports."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FunctionType

from port.translation.ir import syntax
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep


@dataclass
class AlsoWritten:
    """The definitions that looked-up names require.

    Attributes:
        imports: import lines.
        functions: functions of the original.
        classes: classes of the original that are no modules.
    """

    imports: set[str] = field(default_factory=set)
    functions: dict[FunctionType, None] = field(default_factory=dict)
    classes: dict[type, None] = field(default_factory=dict)

    def function(self, function: FunctionType) -> syntax.Name:
        """Add a function, and return its name.

        Raises:
            CannotKeep: the function has no name, as a lambda.
        """
        if not function.__name__.isidentifier():
            raise CannotKeep("a function without a name is passed to its constructor")
        self.functions[function] = None
        return syntax.Name(function.__name__)


def is_own_function(function: FunctionType) -> bool:
    """Whether a function belongs to the user or an installed library, rather than to torch or Python."""
    return function.__module__.partition(".")[0] not in {"torch", *sys.stdlib_module_names}
