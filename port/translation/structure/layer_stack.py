"""A list of layers, of which those that are equal are one stack, as the code of a class reads it."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir import syntax


@dataclass(frozen=True)
class LayerStack:
    """A list of which a run of layers is to be one.

    Attributes:
        owner: name of the class whose call goes through it.
        held: how that reads it: ``self.layers``.
        before: layers before the run, which stay as they are.
        after: those behind it.
    """

    owner: str
    held: syntax.Expr
    before: int = 0
    after: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all layers are of the run: the stack then stands in the place of the list."""
        return not self.before and not self.after

    @property
    def run(self) -> syntax.Expr:
        """How the stack is read."""
        return self.held if self.is_whole else syntax.Subscript(self.held, syntax.Const(self.before))

    def __str__(self) -> str:
        return f"{syntax.source(self.held)} of {self.owner}"
