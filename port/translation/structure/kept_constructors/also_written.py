"""What else has to be written for constructors that are kept: functions, classes, imports."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FunctionType


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


def is_own_function(function: FunctionType) -> bool:
    """Whether a function is the user's, or an installed library's; neither torch's nor Python's."""
    return function.__module__.partition(".")[0] not in {"torch", *sys.stdlib_module_names}
