"""A list of layers whose equal items form one stack, as a class's code reads it."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir import syntax


@dataclass(frozen=True)
class LayerStack:
    """A list in which a run of equal layers becomes a stack.

    Attributes:
        owner: name of the class whose call traverses the list.
        held: how that call reads it: ``self.layers``.
        before: number of layers before the run, which stay separate.
        after: number of layers after it.
    """

    owner: str
    held: syntax.Expr
    before: int = 0
    after: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the run contains all layers: the stack then replaces the list."""
        return not self.before and not self.after

    @property
    def run(self) -> syntax.Expr:
        """How the stack is read."""
        return self.held if self.is_whole else syntax.Subscript(self.held, syntax.Const(self.before))

    def __str__(self) -> str:
        return f"{syntax.source(self.held)} of {self.owner}"
