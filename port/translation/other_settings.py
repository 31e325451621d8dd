"""What is known of a translation at other settings of the original's constructor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
"""Names of the constructor's arguments, ``heads`` or ``config.n_head`` → values."""

OtherModel = Settings | Callable[[], Any]
"""The original at other settings: what is moved, or what constructs it so."""


NOT_CONSTRUCTED = (
    "constructors keep no arguments: the original could not be constructed anew as it is; say how, construct=lambda: …"
)
"""What is said of a model whose arguments nobody gives, and that are not found in it."""


CONSTRUCTED_OTHERWISE = (
    "constructors keep no arguments: constructed once more, with numbers that know which argument they are, the "
    "original is another model, or fails"
)
"""What is said where ``construct`` does not give the model anew."""


@dataclass(frozen=True)
class OtherSettings:
    """Which arguments of the root's constructor the source takes other values for.

    Attributes:
        tried: settings at which the original is written as the same source.
        fixed: arguments that are written as their values → why.
        unknown: why nothing is known of any; empty if something is.
    """

    tried: tuple[Settings, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""

    def why_fixed(self, name: str) -> str | None:
        """Why an argument stays as it is; a field of a configuration may be named alone."""
        return next((why for each, why in self.fixed.items() if name in (each, each.rpartition(".")[2])), None)

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence each."""
        same = [f"the same source at {said(settings)}" for settings in self.tried]
        none = [self.unknown] if self.unknown else []
        return (*none, *same, *(f"{name} stays as it is: {why}" for name, why in self.fixed.items()))


def said(settings: Settings) -> str:
    """``dim = 24, heads = 4``."""
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
