"""Identify the average of the weights that a script keeps with AveragedModel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from port.scripts.events import Event
from port.scripts.observation import Observation

PROBED = (1, 2, 7)
"""Counts of averaged models at which the weight of the next model is measured."""


@dataclass(frozen=True)
class WeightAverage:
    """How an average follows the weights.

    Attributes:
        name: the averaged model's name in the script.
        of: the trained model's name.
        decay: the fraction of the average kept by an update; None is a mean over all weights so far.
        where: the script's line.
    """

    name: str
    of: str
    decay: float | None
    where: Any


def average_of(observation: Observation, models: dict[str, Any]) -> WeightAverage | None:
    """The average that each update updates; None if there is none, or none that can be written.

    Args:
        observation: the script's observation.
        models: copies of its modules, by name.
    """
    found = [[event for event in step if event["event"] == "average"] for step in observation.steps]
    names = {(event["name"], event["of"]) for events in found for event in events}
    if len(names) != 1 or any(len(events) != 1 for events in found) or not all(map(_is_behind, observation.steps)):
        return None
    ((name, of),) = names
    averaged = models.get(name)
    if averaged is None or averaged.use_buffers:  # it has its own running statistics
        return None
    measured = [_weight_of_next(averaged, number) for number in PROBED]
    weights = [weight for weight in measured if weight is not None]
    if len(weights) < len(PROBED):
        return None
    where = found[0][0]["where"]
    if all(math.isclose(weight, 1 / (number + 1)) for weight, number in zip(weights, PROBED, strict=True)):
        return WeightAverage(name, of, None, where)
    return WeightAverage(name, of, round(1 - weights[0], 15), where) if len(set(weights)) == 1 else None


def _is_behind(step: Sequence[Event]) -> bool:
    """Whether the average takes the weights after the step's update."""
    kinds = [event["event"] for event in step]
    return "update" in kinds and "average" in kinds[kinds.index("update") :]


def _weight_of_next(averaged: Any, number: int) -> float | None:
    """The measured weight of a new model in an average of ``number`` models; None if it is not a weighted mean."""
    old, new = (torch.tensor(value, dtype=torch.float64) for value in ([0.0, 1.0, 0.0], [1.0, 0.0, 3.0]))
    count = torch.tensor(number)
    if averaged.multi_avg_fn is not None:
        result = old.clone()
        averaged.multi_avg_fn([result], [new], count)
    elif averaged.avg_fn is not None:
        result = averaged.avg_fn(old, new, count)
    else:
        result = old + (new - old) / (number + 1)
    share = float(result[0])
    return round(share, 15) if torch.allclose(result, old + (new - old) * share, rtol=1e-14, atol=1e-14) else None
