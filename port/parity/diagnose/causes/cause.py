"""What a cause is: why the layer that parts does so, found by trying."""

from __future__ import annotations

from dataclasses import dataclass

LAYER = "{layer}"
"""Stands in a remedy for the path of the layer that parts."""


@dataclass(frozen=True)
class Cause:
    """An explanation that makes the two sides agree.

    Attributes:
        kind: its stable name, as "tanh-gelu".
        layer: torch's path of the layer that parts; "" where that is the model's own code after all of them.
        path: Flax's.
        why: what Flax's side does that torch's does not, in a sentence.
        remedy: what to change.
        note: the id of the difference that it is an instance of, as "W12"; "" where there is none.
        mode: "evaluation" or "training".
    """

    kind: str
    layer: str
    path: str
    why: str
    remedy: str
    note: str = ""
    mode: str = ""

    def __str__(self) -> str:
        where = f"at {self.layer} ({self.path})" if self.layer else "in the model's own code"
        cited = f" ({self.note})" if self.note else ""
        return f"{self.kind}, {where}: {self.why}{cited}. {self.remedy}"
