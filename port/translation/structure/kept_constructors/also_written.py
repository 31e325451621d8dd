"""What else has to be written for constructors that are kept: functions, classes, imports."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FunctionType

from port.translation.ir import syntax
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep


@dataclass
class AlsoWritten:
    """What the names that were looked up ask for.

    Attributes:
        imports: lines.
        functions: of the original's, that have to be written too.
        classes: of the original's, which are no modules.
    """

    imports: set[str] = field(default_factory=set)
    functions: dict[FunctionType, None] = field(default_factory=dict)
    classes: dict[type, None] = field(default_factory=dict)

    def function(self, function: FunctionType) -> syntax.Name:
        """Take in a function; gives its name.

        Raises:
            CannotKeep: it has none, as a lambda has.
        """
        if not function.__name__.isidentifier():
            raise CannotKeep("its constructor is given a function that has no name")
        self.functions[function] = None
        return syntax.Name(function.__name__)


def is_own_function(function: FunctionType) -> bool:
    """Whether a function is the user's, or an installed library's; neither torch's nor Python's."""
    return function.__module__.partition(".")[0] not in {"torch", *sys.stdlib_module_names}
