"""How a script clips an update's gradients: as options of `port.optax_source`, and in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of


@dataclass(frozen=True)
class Clipping:
    """Clipping, or none.

    Attributes:
        options: options of `port.optax_source`.
        clip: a function that clips the gradients in torch.
    """

    options: dict[str, Any] = field(default_factory=dict)
    clip: Callable[[], object] = lambda: None


def clipping_of(event: Event, parameters: Sequence[Tensor]) -> Clipping:
    """What a script's call of ``clip_grad_norm_`` or ``clip_grad_value_`` does.

    Args:
        event: the call's event.
        parameters: the parameters whose gradients are clipped.
    """
    arguments = [*event["arguments"], *event["named"].values()]
    if event["function"] == "clip_grad_value_":
        return Clipping({"clip_value": arguments[0]}, partial(clip_grad_value_, parameters, *arguments))
    norm_type = float(arguments[1]) if len(arguments) > 1 and isinstance(arguments[1], int | float) else 2.0
    options = {"clip_norm": arguments[0], **({} if norm_type == 2.0 else {"norm_type": norm_type})}
    return Clipping(options, partial(clip_grad_norm_, parameters, arguments[0], norm_type))


def clipping_of_update(observation: Observation, module: nn.Module) -> Clipping:
    """How an update's gradients are clipped.

    Args:
        observation: the script's observation.
        module: computes a batch's loss.

    Raises:
        UsageError: gradients are clipped twice, or only those of a part of the model.
    """
    clips = [event for event in observation.steps[0] if event["event"] == "clip"]
    if not clips:
        return Clipping()
    if len(clips) > 1:
        raise UsageError(f"gradients are clipped {len(clips)} times in an update, at {place_of(clips[1]['where'])}")
    (event,) = clips
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if event["count"] < len(trained):
        raise UsageError(f"{place_of(event['where'])} clips only some gradients: put optax.masked around the clipping")
    return clipping_of(event, trained)
