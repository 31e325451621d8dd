"""A state: the option of each Flax node, and what decided it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from port.matching.options import Node, Option

By = Literal["your rule", "kind and shape", "name", "order", "activations", "no twin needed", "open"]
"""What decided a row of the table."""


@dataclass(frozen=True)
class Decision:
    """A node's option, and what decided it."""

    option: Option
    by: By


@dataclass(frozen=True)
class State:
    """Flax's node → its decision."""

    decisions: dict[Node, Decision] = field(default_factory=dict)

    def holder(self, torch: Node) -> Node | None:
        """The Flax node that has this torch node as its twin."""
        return next((flax for flax, made in self.decisions.items() if made.option.torch == torch), None)

    def torch(self, flax: Node) -> Node | None:
        """The torch node that is a Flax node's twin."""
        return self.decisions[flax].option.torch if flax in self.decisions else None

    def decided(self, made: dict[Node, Decision]) -> State:
        """The state with other decisions about some nodes."""
        return State({**self.decisions, **made})

    def without(self, nodes: set[Node]) -> State:
        """The state without decisions about some nodes."""
        return State({flax: made for flax, made in self.decisions.items() if flax not in nodes})
