"""Write train.py and original.py around an update whose batches the script makes itself, without a DataLoader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.observing.described import shapes_in
from port.scripts.watched_original import WatchedOriginal
from port.scripts.wording import place_of
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.lower_precision import precision_of
from port.scripts.writing.optimizing import rates_of
from port.scripts.writing.own_loop import own_loop_of
from port.scripts.writing.same_data import check_own_batches
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.taken_over import check_names, remarks_of
from port.scripts.writing.trainer_files import facts_of, write_checked


def write_own_trainer(
    folder: Path,
    observation: Observation,
    source: LossSource,
    step: StepFacts,
    orders: Mapping[str, Sequence[int]],
    observed: Sequence[Mapping[str, torch.Tensor]],
    names: Sequence[str],
) -> list[str]:
    """Write them, and check that they give the script's batches; returns remarks for the user.

    Args:
        folder: the folder of train_step.py.
        observation: the script's observation.
        source: the source of the path from a batch to its loss.
        step: the facts of train_step.py.
        orders: the axis order of each input in JAX.
        observed: the inputs of each watched step.
        names: the names of the calls from a batch to its loss.

    Raises:
        UsageError: the script's loop is too complex; the message has the line, and what to write.
    """
    inputs = [name for name in source.inputs if name not in source.states]
    descriptions = dict(zip(source.inputs, source.descriptions, strict=True))
    where = observation.steps[0][0]["where"]
    if step.microbatches > 1:
        raise UsageError(f"an update uses {step.microbatches} batches that the loop makes: write the loop by hand")
    expressions = [descriptions[name].get("expression") for name in inputs]
    if missing := [name for name, said in zip(inputs, expressions, strict=True) if said is None]:
        raise UsageError(
            f"{missing[0]}, an input of train_step, has no name in the loop (which begins at {place_of(where)}): name "
            "it, or write the code that makes it and call train_step with arrays"
        )
    loop, remarks = own_loop_of(
        observation, [str(one) for one in expressions], source.states, takes_rate=step.takes_rate
    )
    check_names(loop)
    first = {name: observed[0][name] for name in source.states}
    if any(bool(value.any()) for value in first.values()):
        raise UsageError(f"{', '.join(first)} do not start at zero: write the loop around train_step")
    evaluated = _first_evaluated(observation, observed, source) if "evaluation" in loop.loaders else None
    if evaluated is None and loop.loaders.pop("evaluation", None) is not None:
        remarks.append("the evaluation is left out: the states that it carries were not seen")
    elif evaluated is None and observation.evaluation and not remarks:
        remarks.append(f"{place_of(observation.evaluation[0]['where'])}: the evaluation is left out")
    if loop.hears and evaluated is None:
        raise UsageError("the rate follows from an evaluation that is left out: write the loop around train_step")
    like = {
        name: next(one for one in inputs if one != name and observed[0][one].shape == observed[0][name].shape)
        for name in inputs
        if descriptions[name].get("flattened")
    }
    called = next((one["where"] for one in observation.evaluation if one["event"] == "call"), None)
    facts = facts_of(
        loop,
        step,
        observation,
        orders,
        called if evaluated is not None else None,
        parts={name: str(number) for number, name in enumerate(inputs)},
        states=source.states,
        first=[tuple(one.shape) for one in first.values()],
        first_evaluated=evaluated or (),
        own=True,
        takes_rate=step.takes_rate,
        hears=loop.hears,
        like=like,
    )
    batches = [[one[name] for name in inputs] for one in observed]
    rate = rates_of(observation)[0] if step.takes_rate else None

    def check(original: Path) -> None:
        check_own_batches(original, facts.data, batches, where, rate)

    write_checked(folder, loop, observation, facts, check)
    WatchedOriginal(
        modules=source.modules,
        parts=tuple(facts.parts.values()),
        training="",
        evaluation="evaluation" if evaluated is not None else None,
        microbatches=1,
        precisions=("float64",) if precision_of(observation) is not None else ("float64", "float32"),
        calls=tuple(names),
        closure=step.closure,
    ).write(folder)
    if evaluated is not None:
        remarks.append(f"{facts.evaluation}: train.py's evaluation is the mean over examples of training's loss")
    return [*remarks, *remarks_of(loop, facts.written_for, observation)]


def _first_evaluated(
    observation: Observation, observed: Sequence[Mapping[str, torch.Tensor]], source: LossSource
) -> list[tuple[int, ...]] | None:
    """The shapes of an evaluation's carried states at its start; None if they were not seen."""
    training, held_out = (_model_call(events) for events in (observation.steps[0], observation.evaluation))
    if training is None or held_out is None:
        return None
    ours, theirs = (shapes_in(event["arguments"]) for event in (training, held_out))
    found = []
    for name in source.states:
        shape = tuple(observed[0][name].shape)
        places = [number for number, one in enumerate(ours) if one == shape]
        nth = [state for state in source.states if tuple(observed[0][state].shape) == shape].index(name)
        if len(ours) != len(theirs) or nth >= len(places):
            return None
        found.append(theirs[places[nth]])
    return found


def _model_call(events: Sequence[Event]) -> Event | None:
    return next((one for one in events if one["event"] == "call" and one["has_parameters"]), None)
