"""Names of what the modules of a class hold, in the original and in the written class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from port.translation.ir import syntax


@dataclass(frozen=True)
class HeldNames:
    """What the modules of a class hold.

    Attributes:
        modules: names of the modules and tensors that the original's instances hold.
        written: those of them that the written instances hold.
        lacking: those that some instances lack.
        tensors: name → its initial value in each instance.
        added: names that exist in JAX only (dropouts, random streams) → their construction.
        is_list: whether the modules are items of a list.
        tables: names of buffers in torch's layout that start as tables without a formula, or hold one number.
    """

    modules: frozenset[str]
    written: frozenset[str]
    lacking: frozenset[str]
    tensors: Mapping[str, tuple[syntax.Expr, ...]]
    added: Mapping[str, syntax.Expr] = field(default_factory=dict)
    is_list: bool = False
    tables: frozenset[str] = frozenset()


NOTHING_HELD = HeldNames(frozenset(), frozenset(), frozenset(), {})
"""For a class whose variables are those of the layer that it derives from."""
