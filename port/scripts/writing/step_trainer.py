"""Write train.py and original.py around an update made by a loop over steps that makes its batches itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from port.errors import UsageError
from port.scripts.found_by_script import FoundByScript
from port.scripts.observation import Observation
from port.scripts.watched_original import LinesOfLoop, WatchedOriginal
from port.scripts.wording import place_of
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.lower_precision import precision_of
from port.scripts.writing.optimizing import constructed_rate, rates_of
from port.scripts.writing.same_data import SeenBatch, check_steps
from port.scripts.writing.step_loop import called_at, step_loop_of
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.taken_over import check_names, remarks_of
from port.scripts.writing.trainer_files import facts_of, write_checked

CHECKED = 4
"""How many batches are redrawn as a check."""
DIVIDES = ("div", "__truediv__", "mul", "__mul__", "__rmul__")


def write_step_trainer(
    folder: Path,
    observation: Observation,
    source: LossSource,
    step: StepFacts,
    orders: Mapping[str, Sequence[int]],
    observed: Sequence[Mapping[str, torch.Tensor]],
    names: Sequence[str],
    draws: Sequence[Sequence[Callable[[], None]]],
    *,
    with_models: bool = False,
) -> list[str]:
    """Write them, and check that they give the script's batches; returns remarks for the user.

    Args:
        folder: the folder of train_step.py.
        observation: the script's observation.
        source: the source of the path from a batch to its loss.
        step: the facts of train_step.py.
        orders: the axis order of each input in JAX.
        observed: the inputs of each watched microbatch.
        names: the names of the calls from a batch to its loss.
        draws: for each watched microbatch, functions that restore the generators' states before it.
        with_models: whether to copy the models' construction too, because the data is drawn after their weights.

    Raises:
        DrawnBehind: the copied lines make other data.
        UsageError: the script's loop is too complex; the message has the line, and what to write.
    """
    inputs = list(source.inputs)
    descriptions = dict(zip(inputs, source.descriptions, strict=True))
    rates = rates_of(observation) if step.takes_rate else []
    calls, parts = _of_one_loss(observation, names, step.microbatches)
    loop = step_loop_of(
        observation,
        [_expression(name, descriptions[name], observation) for name in inputs],
        source.modules,
        takes_rate=step.takes_rate,
        first_rate=constructed_rate(observation) if rates else 0.0,
        with_models=with_models,
        evaluates=_is_found(observation, calls),
        has_numbers=any(one.get("number") for one in source.descriptions),
    )
    check_names(loop.loop)
    remarks = list(loop.remarks)
    evaluates = "evaluation" in loop.loop.loaders
    called = next((one["where"] for one in observation.evaluation if one["event"] == "call"), None)
    facts = facts_of(
        loop.loop,
        step,
        observation,
        orders,
        called if evaluates else None,
        parts={name: str(number) for number, name in enumerate(inputs)},
        own=True,
        takes_rate=step.takes_rate,
        microbatches=step.microbatches,
        in_steps=True,
        parts_of_loss=parts,
    )
    where = called_at(observation)

    def check(original: Path) -> None:
        numbers = range(step.microbatches, len(observed))[:CHECKED]  # the first update is not seen completely
        seen = [SeenBatch(n, [observed[n][name] for name in inputs], draws[n]) for n in numbers]
        check_steps(original, facts.data, seen, rates, where)

    write_checked(folder, loop.loop, observation, facts, check)
    WatchedOriginal(
        modules=source.modules,
        parts=tuple(facts.parts.values()),
        training="",
        evaluation="evaluation" if evaluates else None,
        microbatches=step.microbatches,
        precisions=("float64",) if precision_of(observation) is not None else ("float64", "float32"),
        calls=tuple(calls),
        loop=LinesOfLoop.of(loop.loop.file, loop.draws_at, loop.evaluates_at).as_data(),
    ).write(folder)
    if evaluates:
        remarks.append(f"{facts.evaluation}: train.py's evaluation is the mean over examples of training's loss")
    return [*remarks, *remarks_of(loop.loop, facts.written_for, observation)]


def _expression(name: str, description: Mapping[str, object], observation: Observation) -> str:
    said = description.get("expression")
    try:
        ast.parse(str(said), mode="eval")
    except SyntaxError:
        said = None
    if said is None:
        begun = place_of(observation.steps[0][0]["where"])
        raise UsageError(
            f"{name}, an input of train_step, has no name in the loop (which begins at {begun}): name it, or write the "
            "code that makes it and call train_step with arrays"
        )
    return str(said)


def _of_one_loss(observation: Observation, names: Sequence[str], microbatches: int) -> tuple[list[str], int]:
    """The calls up to a loss before its division by the number of microbatches, and the divisor."""
    if microbatches == 1:
        return list(names), 1
    path = next(event["path"] for event in observation.steps[0] if event["event"] == "backward")
    last = path[-1]
    numbers = [one for one in last["arguments"]["positional"] if isinstance(one, int | float)]
    if last["name"].rpartition(".")[2] in DIVIDES and last["name"] == names[-1] and len(numbers) == 1:
        by = numbers[0] if "div" in last["name"] else 1 / numbers[0]
        if by == microbatches:
            return list(names[:-1]), microbatches
    return list(names), 1


def _is_found(observation: Observation, calls: Sequence[str]) -> bool:
    """Whether the script reads a number from such a loss when it evaluates."""
    found = FoundByScript(calls)
    for event in observation.evaluation:
        if event["event"] == "number":
            found.see(event)
    return found.end() is not None
