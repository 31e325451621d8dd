"""Find what a loop over a DataLoader makes besides its batches: inputs from each batch, or a number per update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.loop_lines import LoopLines, loop_lines
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.optimizing import constructed_rate, rates_of
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.update_numbers import UpdateNumbers, update_numbers


def made_in_loop(
    observation: Observation, source: LossSource, step: StepFacts, parts: Mapping[str, str], made: Mapping[str, Event]
) -> tuple[LoopLines | None, UpdateNumbers | None]:
    """The lines that make inputs from a batch, and the generator of numbers; each None if there is none.

    Args:
        observation: the script's observation.
        source: the source of the path from a batch to its loss.
        step: the facts of train_step.py.
        parts: inputs that are parts of a batch.
        made: inputs that are made, by the call that makes each.

    Raises:
        UsageError: they cannot be separated from the rest of the loop; the message names the line.
    """
    begun = observation.trained_on()
    if step.takes_rate:
        if made or begun is None:
            raise UsageError("the script sets the learning rate by hand: compute it before each call of train_step")
        return None, update_numbers(observation, begun, [], takes_rate=True, first_rate=constructed_rate(observation))
    if not made:
        return None, None
    try:
        return loop_lines(observation, parts, made, source.modules), None
    except UsageError:
        if any(one["where"] for one in made.values()) or step.microbatches > 1 or begun is None:
            raise
    said = [str(one["expression"]) for one in made.values()]
    return None, update_numbers(observation, begun, said, takes_rate=False, first_rate=0.0)


def numbers_seen(
    observation: Observation, observed: Sequence[Mapping[str, torch.Tensor]], made: Mapping[str, Event], step: StepFacts
) -> list[list[float]]:
    """The numbers of the watched updates."""
    if step.takes_rate:
        return [[rate] for rate in rates_of(observation)]
    return [[float(one[name]) for name in made] for one in observed]
