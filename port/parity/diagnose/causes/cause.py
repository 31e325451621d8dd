"""A cause: why a layer differs, found by testing explanations."""

from __future__ import annotations

from dataclasses import dataclass

LAYER = "{layer}"
"""Placeholder in a remedy for the path of the layer that differs."""


@dataclass(frozen=True)
class Cause:
    """An explanation that makes the two sides agree when it is applied.

    Attributes:
        kind: its stable name, such as "tanh-gelu".
        layer: the torch path of the layer that differs; "" for the model's own code after all layers.
        path: the Flax path.
        why: what Flax does differently from torch, as a sentence.
        remedy: what to change.
        note: the id of the note that describes it, such as "W12"; "" if there is none.
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
