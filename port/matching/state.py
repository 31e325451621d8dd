"""A state: which option each of Flax's nodes has, and by what it was decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from port.matching.options import Node, Option

By = Literal["your rule", "kind and shape", "name", "order", "activations", "no twin needed", "open"]
"""By what a row of the table was decided."""


@dataclass(frozen=True)
class Decision:
    """A node's option, and by what it was chosen."""

    option: Option
    by: By


@dataclass(frozen=True)
class State:
    """Flax's node → what was decided of it."""

    decisions: dict[Node, Decision] = field(default_factory=dict)

    def holder(self, torch: Node) -> Node | None:
        """Which of Flax's nodes has this one of torch's."""
        return next((flax for flax, made in self.decisions.items() if made.option.torch == torch), None)

    def torch(self, flax: Node) -> Node | None:
        """Which of torch's nodes one of Flax's has."""
        return self.decisions[flax].option.torch if flax in self.decisions else None

    def decided(self, made: dict[Node, Decision]) -> State:
        """The state with other decisions about some nodes."""
        return State({**self.decisions, **made})

    def without(self, nodes: set[Node]) -> State:
        """The state with nothing decided of some nodes."""
        return State({flax: made for flax, made in self.decisions.items() if flax not in nodes})
