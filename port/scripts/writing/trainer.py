"""Write train.py and original.py around a written update if the script's loop is simple enough, or say why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from port.errors import PortError, UsageError
from port.scripts.observation import Observation
from port.scripts.observing.graph import Computation
from port.scripts.ranks import ProcessRank
from port.scripts.watched_original import WatchedOriginal
from port.scripts.wording import place_of
from port.scripts.writing.evaluation_loader import evaluation_of, loader_of
from port.scripts.writing.inputs_of_batch import check_microbatches, parts_of_batch
from port.scripts.writing.lengths_seen import remarks_on_lengths
from port.scripts.writing.loader_workers import preloaded
from port.scripts.writing.loop import EpochLoop, loop_of
from port.scripts.writing.loop_lines import inputs_function
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.lower_precision import precision_of
from port.scripts.writing.made_in_loop import made_in_loop, numbers_seen
from port.scripts.writing.own_evaluation import OwnEvaluation
from port.scripts.writing.own_evaluation_files import EvaluationWriter
from port.scripts.writing.own_trainer import write_own_trainer
from port.scripts.writing.plateau import check_follows, plateau_step
from port.scripts.writing.same_data import DrawnBehind, DrawnInLoop, check_data
from port.scripts.writing.step_loop import is_step_loop
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.step_trainer import write_step_trainer
from port.scripts.writing.taken_over import check_names, remarks_of
from port.scripts.writing.telling import telling_of
from port.scripts.writing.trainer_files import epoch_of, facts_of, write_checked
from port.scripts.writing.unwritten import remarks_around
from port.scripts.writing.whole_data import are_whole, check_whole, whole_data_loop

MODELS_TOO = "original.py makes the models, too: the data is drawn from the generator that draws their weights"


@dataclass(frozen=True)
class InTurn:
    """Several optimizers that step in turn.

    Attributes:
        models: the script's models that they train or that lead to a loss.
        last: the optimizer whose step completes an update.
        sample: called with the variables that count the epochs and that hold the options; writes samples.py, if models
            are called in training mode for no loss; returns whether it has, and remarks for the user.
    """

    models: tuple[str, ...]
    last: str
    sample: Callable[[str, str | None], tuple[bool, list[str]]]


def trainer_or_reason(write: Callable[[], list[str]], observation: Observation) -> tuple[str, list[str]]:
    """Write a trainer; returns why there is none, if so, and remarks for the user.

    Args:
        write: writes it, or raises `UsageError`.
        observation: the script's observation.
    """
    try:
        return "", write()
    except UsageError as error:
        return str(error), remarks_around(observation)


def write_trainer(
    folder: Path,
    observation: Observation,
    source: LossSource,
    step: StepFacts,
    orders: Mapping[str, Sequence[int]],
    loaders: Mapping[str, Any],
    batches: int | None,
    *,
    observed: Sequence[Mapping[str, torch.Tensor]] = (),
    names: Sequence[str] = (),
    calls: Mapping[int, Computation] | None = None,
    draws: Sequence[Sequence[Callable[[], None]]] = (),
    turns: InTurn | None = None,
    evaluation_writer: EvaluationWriter | None = None,
) -> list[str]:
    """Write them, and check that they give the script's data; returns remarks for the user.

    Args:
        folder: the folder of train_step.py.
        observation: the script's observation.
        source: the source of the path from a batch to its loss.
        step: the facts of train_step.py.
        orders: the axis order of each input in JAX.
        loaders: the script's DataLoaders, by name.
        batches: the number of updates per epoch, if a schedule needs it.
        observed: the inputs of each watched step, if one optimizer steps.
        names: the names of the calls from a batch to its loss.
        calls: the calls of the first update, by number: if one of them makes an input, its line is copied.
        draws: for each watched batch, functions that restore the generators' states before it.
        turns: the turns of several optimizers.
        evaluation_writer: writes the script's evaluation, if one optimizer steps.

    Raises:
        UsageError: the script's loop is too complex; the message has the line, and what to write.
    """
    write = partial(
        _write,
        folder,
        observation,
        source,
        step,
        orders,
        loaders,
        batches,
        observed,
        names,
        calls or {},
        draws,
        turns,
        evaluation_writer=evaluation_writer,
    )
    try:
        return write()
    except DrawnBehind:
        return [*write(with_models=True), MODELS_TOO]


def _write(
    folder: Path,
    observation: Observation,
    source: LossSource,
    step: StepFacts,
    orders: Mapping[str, Sequence[int]],
    loaders: Mapping[str, Any],
    batches: int | None,
    observed: Sequence[Mapping[str, torch.Tensor]],
    names: Sequence[str],
    calls: Mapping[int, Computation],
    draws: Sequence[Sequence[Callable[[], None]]],
    turns: InTurn | None,
    *,
    evaluation_writer: EvaluationWriter | None,
    with_models: bool = False,
) -> list[str]:
    first = observed[0] if observed else {}
    is_whole = turns is None and are_whole(source.descriptions, observed)
    plateau = plateau_step(observation)
    is_own = not is_whole and turns is None and not any("batch" in description for description in source.descriptions)
    if plateau is not None and (turns is not None or is_own):
        check_follows(observation, plateau, evaluates=False)
    if is_own:
        by_steps = partial(write_step_trainer, folder, observation, source, step, orders, observed, names, draws)
        is_plain = not source.states and not step.closure
        if is_plain and is_step_loop(observation):
            return by_steps(with_models=with_models)
        try:
            return write_own_trainer(folder, observation, source, step, orders, observed, names)
        except DrawnInLoop:
            if not is_plain:
                raise
        return by_steps(with_models=with_models)
    parts, made = ({}, {}) if is_whole else parts_of_batch(source, observation, calls)
    training = loader_of(
        observation, next((description["batch"] for description in source.descriptions if "batch" in description), "")
    )
    if (made or is_whole) and step.microbatches > 1:
        what = ", ".join(made or source.inputs)
        raise UsageError(
            f"an update takes several gradients, each with another {what}: write the loop around train_step"
        )
    if not is_whole:
        check_microbatches(training, step.microbatches)
    lines, numbers = made_in_loop(observation, source, step, parts, made)
    needs = (lines.needs if lines else frozenset()) | (numbers.needed if numbers else frozenset())
    evaluation, is_average, remarks = evaluation_of(observation, source, step.average, has_more=bool(made or turns))
    loop = (
        whole_data_loop(observation, [str(description["variable"]) for description in source.descriptions])
        if is_whole
        else loop_of(observation, training, evaluation, needs, with_models=with_models)
    )
    if numbers is not None:
        loop.numbers, loop.generators, loop.others = numbers.name, [numbers.text], [*numbers.nodes]
    check_names(loop)
    if evaluation is not None and "evaluation" not in loop.loaders:
        where = place_of(observation.evaluation[0]["where"])
        evaluation, remarks = (
            None,
            [f"{where}: the evaluation is left out, because its loader, or when it runs, is not visible: write it"],
        )
    if lines or is_whole:
        order = [*parts, *made] or list(source.inputs)
        parts = {name: str(order.index(name)) for name in source.inputs}
    own = None
    if evaluation is not None and evaluation_writer is not None and plateau is None and not is_average:
        own, remarks = _own_evaluation(evaluation_writer, loop, step, remarks)
    samples, sample_remarks = turns.sample(epoch_of(loop), loop.taken.options) if turns else (False, [])
    remarks += sample_remarks
    is_in_parts = step.microbatches > 1 or ProcessRank.of_this_process().size > 1
    telling = None
    if not (is_whole or lines is not None or turns is not None or is_in_parts):
        telling = telling_of(loop, observation, parts, orders, epoch_of(loop), own)
    facts = facts_of(
        loop,
        step,
        observation,
        orders,
        observation.evaluation[0]["where"] if evaluation is not None else None,
        parts=parts,
        batches=batches,
        preloaded=preloaded(loop, observation),
        microbatches=step.microbatches,
        evaluates_average=is_average,
        in_turn=turns is not None,
        makes_inputs=lines is not None,
        samples=samples,
        steps_plateau=plateau is not None,
        own_evaluation=own,
        telling=telling,
        numbers=loop.numbers,
    )
    if plateau is not None:
        each = facts.evaluation is not None and not facts.evaluates_if and not facts.evaluates_at_end
        check_follows(observation, plateau, evaluates=each)
        remarks.append(
            f"{place_of(plateau['where'])}: train.py steps ReduceLROnPlateau with the loss of its own evaluation"
        )

    def check(original: Path) -> None:
        if is_whole:
            update = next(e for e in observation.steps[0] if e["event"] == "update")
            check_whole(original, facts.data, list(first.values()), place_of(update["where"]))
        else:
            seen_numbers = numbers_seen(observation, observed, made, step) if numbers is not None else []
            check_data(original, loop, facts.data, loaders, training, evaluation, seen_numbers)

    write_checked(folder, loop, observation, facts, check, inputs_function(lines) if lines else ())
    watched = WatchedOriginal(
        modules=turns.models if turns else source.modules,
        parts=tuple(parts.values()),
        training="" if is_whole else training["name"],
        closure=step.closure,
        evaluation=evaluation["name"] if evaluation is not None else None,
        microbatches=step.microbatches,
        averages={step.average.of: step.average.name} if step.average is not None and is_average else {},
        precisions=("float64",) if _in_float64_alone(observation, first) else ("float64", "float32"),
        makes_inputs=lines is not None,
        last_optimizer=turns.last if turns else None,
        ranks=facts.ranks,
        numbers=evaluation_writer.numbers(own) if own is not None and evaluation_writer is not None else (),
    )
    watched.write(folder)
    taken = {*(own.lines if own is not None else ()), *(telling.lines if telling is not None else ())}
    tells = telling is not None and telling.tells
    remarks += remarks_on_lengths(observed)
    return [*remarks, *remarks_of(loop, facts.written_for, observation, taken, tells=tells)]


def _own_evaluation(
    writer: EvaluationWriter, loop: EpochLoop, step: StepFacts, remarks: list[str]
) -> tuple[OwnEvaluation | None, list[str]]:
    """The script's evaluation, copied if it is simple enough, and remarks on what is left out."""
    if step.states or step.draws_in_evaluation or ProcessRank.of_this_process().size > 1:
        return None, remarks
    try:
        return writer.write(loop, loop.epoch), []
    except PortError as error:
        why = str(error)
    except Exception as error:  # the update and the loop are written, and are useful without it
        why = f"a bug in port, please report it: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return None, [*remarks, f"the evaluation is not the script's own lines: {why}"]


def _in_float64_alone(observation: Observation, inputs: Mapping[str, torch.Tensor]) -> bool:
    """Whether to compare only in float64: the original computes under autocast, or in float64 itself."""
    return precision_of(observation) is not None or any(one.dtype == torch.float64 for one in inputs.values())
