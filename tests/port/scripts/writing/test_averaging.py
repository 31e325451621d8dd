"""Which average of the weights a script keeps: measured, not read from a name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import swa_utils

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.averaging import average_of

AVERAGES: dict[str, tuple[dict[str, Any], Any]] = {
    "a mean": ({}, None),
    "a mean of rounded shares": ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, "none"),  # to float32, always
    "exponential": ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.99)}, 0.99),
    "exponential, one by one": ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 0.5),
    "of its own": ({"avg_fn": lambda mean, new, count: 0.75 * mean + 0.25 * new}, 0.75),
    "no share": ({"avg_fn": lambda mean, new, count: torch.maximum(mean, new)}, "none"),
    "a warm-up": ({"avg_fn": lambda mean, new, count: mean + (new - mean) / (count + 10)}, "none"),
    "its own statistics": ({"use_buffers": True}, "none"),
}


def seen(*kinds: str) -> Observation:
    step: list[Event] = [{"event": kind, "name": "ema", "of": "model", "where": {"line": 3}} for kind in kinds]
    return Observation({}, steps=[step, step])


@pytest.mark.parametrize("name", AVERAGES)
def test_what_an_average_is(name: str) -> None:
    options, decay = AVERAGES[name]
    found = average_of(seen("update", "average"), {"ema": swa_utils.AveragedModel(nn.Linear(2, 2), **options)})
    assert (found is None) == (decay == "none")
    assert found is None or (found.of == "model" and found.decay == decay)


def test_one_at_another_time_is_not_taken() -> None:
    models = {"ema": swa_utils.AveragedModel(nn.Linear(2, 2))}
    assert average_of(seen("update", "average"), models) is not None
    for kinds in (("average", "update"), ("update",), ("update", "average", "average")):
        assert average_of(seen(*kinds), models) is None
