"""What a pair is: one thing said twice, and how to get from either to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from port.mapping import Move


@dataclass(frozen=True)
class ParamPair:
    """One parameter or buffer of a layer: torch's name, Flax's name, and the moves from torch's layout to Flax's."""

    torch: str
    flax: str
    moves: tuple[Move, ...] = ()


def _always(module: Any) -> bool:
    return True


@dataclass(frozen=True)
class LayerPair:
    """A torch layer and its Flax twin.

    Attributes:
        torch: torch's class, by its public name; reading a pair imports neither library.
        flax: the twin's class, by its public name.
        params: parameters and buffers. One that a module does not have (a layer without bias) is left out.
        is_twin: where one Flax class stands for several torch classes: whether this module of it is this pair's.
        notes: ids of the differences that a reader should know of.
    """

    torch: str
    flax: str
    params: tuple[ParamPair, ...]
    is_twin: Callable[[Any], bool] = _always
    notes: tuple[str, ...] = ()
