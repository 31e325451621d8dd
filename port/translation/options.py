"""The model to translate, and the options of its translation."""

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
    """The model to translate.

    Attributes:
        captured: the runs of each example call.
        run: captures a call with other lengths free.
        seen: how parameters and buffers are initialised.
        construction: how it is constructed, if that is known.
        construct: the user's function that constructs it, if any.
        unknown: why that function failed; empty if it did not.
    """

    captured: Sequence[BothRuns]
    run: Callable[..., BothRuns]
    seen: Seen
    construction: Construction | None
    construct: Callable[[], Any] | None
    unknown: str = ""

    @property
    def root(self) -> torch.nn.Module:
        """The torch module that was run."""
        return self.captured[0].root


@dataclass(frozen=True)
class TranslationOptions:
    """The options of `port.translate`, by the names of its arguments; ``remat`` includes the policy."""

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
