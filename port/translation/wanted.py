"""What is translated, and what is asked of its translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from port.translation.both_modes import BothRuns
from port.translation.frontend.construction import Construction
from port.translation.other_settings import OtherModel
from port.translation.structure.init_inference import Seen
from port.translation.structure.remat import Remat

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CapturedModel:
    """The model that is translated.

    Attributes:
        captured: the runs of each example call.
        run: captures one with other lengths free, given the call's arguments.
        seen: how parameters and buffers start.
        construction: how it is constructed, if that is known.
        construct: constructs it, where somebody said how.
        unknown: why it cannot be constructed as somebody said; empty if it can.
    """

    captured: Sequence[BothRuns]
    run: Callable[..., BothRuns]
    seen: Seen
    construction: Construction | None
    construct: Callable[[], Any] | None
    unknown: str = ""

    @property
    def root(self) -> torch.nn.Module:
        """The module."""
        return self.captured[0].root


@dataclass(frozen=True)
class Wanted:
    """What is asked of a translation: the arguments of `port.translate` by their names; ``remat`` with its policy."""

    name: str | None
    check: bool
    remat: Remat
    standalone: bool
    package: bool
    scan: bool
    logical_axes: bool
    at: Sequence[OtherModel]
    time_limit: float
    sizes_limit: float
    tell: Callable[[str], Any] | None
