"""ReduceLROnPlateau: when and with which number a script steps it, and how a written trainer does so."""

from __future__ import annotations

import ast
from collections import defaultdict
from math import isclose

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of

KIND = "ReduceLROnPlateau"
SAME = 1e-4
"""The relative tolerance between a number and an evaluation's mean: the script computes both in float32."""


def plateau_step(observation: Observation) -> Event | None:
    """The event of an epoch in which the rate may fall; None if no such scheduler is stepped.

    Raises:
        UsageError: it is stepped with every update.
    """
    names = {one["name"] for one in observation.schedulers if one["kind"].endswith(KIND)}
    for event in observation.steps[0]:
        if event["event"] == "schedule" and event["name"] in names:
            raise UsageError(
                f"{place_of(event['where'])} steps {KIND} with every update: pass the loss to the optimizer, "
                "update(gradients, state, params, value=loss), in a train_step of your own"
            )
    return next((one for one in observation.epoch if one["event"] == "schedule" and one["name"] in names), None)


def check_follows(observation: Observation, event: Event, *, evaluates: bool) -> None:
    """Check that the number is the result of each epoch's evaluation.

    Args:
        observation: the script's observation.
        event: the scheduler's step.
        evaluates: whether the trainer evaluates after each epoch.

    Raises:
        UsageError: it is another number; the message says what to call with it.
    """
    if not evaluates or not any(isclose(event["given"][0], mean, rel_tol=SAME) for mean in _means(observation)):
        raise UsageError(
            f"{place_of(event['where'])} steps {KIND} with a number that is no mean of the evaluation's losses: write "
            "the loop around train_step, and call after_evaluation(state, number) where the script steps it"
        )


def options_of(optax: str) -> str:
    """The options of `port.transforms.torch_plateau_step`, taken from an optimizer's source."""
    for node in ast.walk(ast.parse(optax)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("reduce_on_torch_plateau"):
            return "".join(f", {word.arg}={ast.unparse(word.value)}" for word in node.keywords)
    return ""


def _means(observation: Observation) -> list[float]:
    """The means, over batches and over examples, of the losses that each line of the evaluation reads from tensors.

    A loss is what the same calls as in training compute: not an accuracy, nor a part of the loss.
    """
    trained = next((_calls(event) for event in observation.steps[0] if event["event"] == "backward"), None)
    sizes: list[int] = []
    numbers: dict[int, list[float]] = defaultdict(list)
    for event in observation.evaluation:
        if event["event"] == "batch":
            sizes.append(_length(event))
        elif event["event"] == "number" and _calls(event) == trained:
            numbers[event["where"]["line"]].append(float(event["value"]))
    found = []
    count = sum(sizes)
    for values in numbers.values():
        found.append(sum(values) / len(values))
        if len(values) == len(sizes) and count:
            weighted = [value * size for value, size in zip(values, sizes, strict=True)]
            found += [sum(weighted) / count, sum(values) / count]
    return found


def _calls(event: Event) -> list[str]:
    """The names of the calls that lead to a loss or a number."""
    return [call["name"] for call in event["path"]]


def _length(batch: Event) -> int:
    """The number of examples in a batch, from its first part: ``(16, 3, 8, 8) float32``."""
    shape = next(iter(batch["parts"].values()), "").partition(",")[0].strip("()")
    return int(shape) if shape.isdigit() else 0
