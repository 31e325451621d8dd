"""Write the files around an update: train.py, and original.py, which is run and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from port.scripts.observation import Observation
from port.scripts.ranks import ProcessRank
from port.scripts.wording import place_of
from port.scripts.writing.loop import EpochLoop
from port.scripts.writing.original_source import name_of_data, original_source
from port.scripts.writing.own_telling import OwnTelling
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.taken_over import OWN_NAMES, imports_its_own, interval, values_kept
from port.scripts.writing.trainer_facts import TrainerFacts
from port.scripts.writing.trainer_source import trainer_source
from port.translation.codegen.emit import formatted


def facts_of(
    loop: EpochLoop,
    step: StepFacts,
    observation: Observation,
    orders: Mapping[str, Sequence[int]],
    evaluated: Any,
    telling: OwnTelling | None = None,
    **more: Any,
) -> TrainerFacts:
    """The facts about a loop for train.py.

    Args:
        loop: the script's loop.
        step: the facts of train_step.py.
        observation: the script's observation.
        orders: the axis order of each input in JAX.
        evaluated: the line of the copied evaluation; None if none is copied.
        telling: the script's lines that print, or leave the loop.
        more: facts that only some kinds of loop have.
    """
    loaders = _loaders_named(loop)
    numbers = [one for one in step.numbers if one.file == loop.file and one.expression.loaders <= loaders.keys()]
    loop.covered = {
        place
        for file, expression in step.covered
        if file == loop.file and expression.loaders <= loaders.keys()
        for place in expression.places
    } | (telling.attributes if telling is not None else set())
    if step.shaping is not None:
        loop.covered |= step.shaping.covered(loop.file)
    written_for = values_kept(loop, observation)
    return TrainerFacts(
        script=step.script,
        command="python train_jax/train.py",
        folder=str(loop.file.parent) if imports_its_own(loop) else None,
        orders=orders,
        flags=[flag for option in observation.options for flag in option["flags"]],
        written_for=written_for,
        epoch=epoch_of(loop),
        every=interval(loop),
        evaluation=place_of(evaluated) if evaluated is not None else None,
        evaluates_at_end=loop.evaluates_at_end,
        evaluates_if=loop.evaluates_if,
        hyperparameters={
            one.name: one.expression.said(loaders) for one in numbers if not one.expression.options & written_for.keys()
        },
        shaping=step.shaping.without(written_for) if step.shaping is not None else None,
        telling=telling,
        drops=step.drops,
        draws_in_evaluation=step.draws_in_evaluation,
        data=name_of_data(loop),
        tells_epoch=loop.tells_epoch,
        ranks=ProcessRank.of_this_process().size,
        **more,
    )


def _loaders_named(loop: EpochLoop) -> dict[str, str]:
    """The script's loader variables, with train.py's expressions; empty if each process has a part."""
    if ProcessRank.of_this_process().size > 1:
        return {}
    said = {"training": "training", "evaluation": 'loaders["evaluation"]'}
    return {variable: said[what] for what, variable in loop.loaders.items()}


def epoch_of(loop: EpochLoop) -> str:
    """The script's name for its epoch counter, unless train.py uses that name itself."""
    return loop.epoch if loop.epoch not in OWN_NAMES else "epoch"


def write_checked(
    folder: Path,
    loop: EpochLoop,
    observation: Observation,
    facts: TrainerFacts,
    check: Callable[[Path], object],
    inputs: Sequence[str] = (),
) -> None:
    """Write original.py and train.py; neither, if original.py does not give what the script had.

    Args:
        folder: the folder of train_step.py.
        loop: the script's loop.
        observation: the script's observation.
        facts: the facts of train.py.
        check: called with original.py; raises if it gives something different.
        inputs: the lines of its function that makes an update's inputs from a batch.

    Raises:
        UsageError: from ``check``, or an option cannot be written.
    """
    original = folder / "original.py"
    original.write_text(
        formatted(original_source(loop, facts.script, observation.options, inputs, facts.ranks)), "utf-8"
    )
    try:
        check(original)
        train = formatted(trainer_source(facts))
    except BaseException:
        original.unlink()
        raise
    (folder / "train.py").write_text(train, "utf-8")
