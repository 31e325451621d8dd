"""Mixed precision in a written update: what autocast and GradScaler did to a loss."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from port.scripts.events import Event
from port.scripts.observation import Observation


def precision_of(observation: Observation) -> Event | None:
    """The autocast entered in the first watched step; None if none was enabled."""
    events = [event for event in observation.steps[0] if event["event"] == "autocast" and event["enabled"]]
    return events[0] if events else None


def in_precision(autocast: Event | None) -> AbstractContextManager[object]:
    """The context in which to compute a loss as the script does."""
    if autocast is None:
        return nullcontext()
    return torch.autocast(autocast["device"], getattr(torch, autocast["dtype"].removeprefix("torch.")))


def scale_of(observation: Observation) -> float:
    """GradScaler's factor of the first step's loss."""
    scales = [
        event["scale"]
        for event in observation.steps[0]
        if event["event"] == "scaler" and event["enabled"] and event["method"] == "scale"
    ]
    return float(scales[0]) if scales else 1.0
