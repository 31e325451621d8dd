"""How a script clips the gradients of an update: as `port.optax_source` says it, and in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from port.scripts.events import Event


@dataclass(frozen=True)
class Clipping:
    """Clipping, or none.

    Attributes:
        options: of `port.optax_source`.
        clip: clips the gradients that torch holds.
    """

    options: dict[str, Any] = field(default_factory=dict)
    clip: Callable[[], object] = lambda: None


def clipping_of(event: Event, parameters: Sequence[Tensor]) -> Clipping:
    """What a script's call of ``clip_grad_norm_`` or ``clip_grad_value_`` does.

    Args:
        event: of the call.
        parameters: whose gradients are clipped.
    """
    given = [*event["arguments"], *event["named"].values()]
    if event["function"] == "clip_grad_value_":
        return Clipping({"clip_value": given[0]}, partial(clip_grad_value_, parameters, *given))
    norm_type = float(given[1]) if len(given) > 1 and isinstance(given[1], int | float) else 2.0
    options = {"clip_norm": given[0], **({} if norm_type == 2.0 else {"norm_type": norm_type})}
    return Clipping(options, partial(clip_grad_norm_, parameters, given[0], norm_type))
