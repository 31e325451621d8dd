"""The names of what the modules of a class hold, in the original and as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from port.translation.ir import syntax


@dataclass(frozen=True)
class HeldNames:
    """What the modules of a class hold.

    Attributes:
        modules: names of the modules and the tensors that the original's hold.
        written: those of them that the written ones hold.
        lacking: those that some do not have.
        tensors: names → what they start as in each instance.
        added: names of what the written ones have in JAX alone (dropouts, random streams) → what makes it.
        is_list: whether their modules are items of a list.
        tables: names of buffers that lie as torch's do, and start as tables that no formula gives.
    """

    modules: frozenset[str]
    written: frozenset[str]
    lacking: frozenset[str]
    tensors: Mapping[str, tuple[syntax.Expr, ...]]
    added: Mapping[str, syntax.Expr] = field(default_factory=dict)
    is_list: bool = False
    tables: frozenset[str] = frozenset()


NOTHING_HELD = HeldNames(frozenset(), frozenset(), frozenset(), {})
"""By a class whose variables are those of the layer that it derives from, say."""
