"""Writes train.py and original.py around a written update, where the script's loop is plain; or says why not."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.watched_original import WatchedOriginal
from port.scripts.wording import place_of
from port.scripts.writing.averaging import WeightAverage
from port.scripts.writing.loop import EpochLoop, loop_of
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.lower_precision import precision_of
from port.scripts.writing.original_source import original_source
from port.scripts.writing.same_data import check_data
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.trainer_source import TrainerFacts, trainer_source

OWN_NAMES = {
    *("args", "arrays", "batch", "batch_number", "data", "done", "dtype", "epochs", "evaluate", "graphdef", "jax"),
    *("keeper", "kept", "loaders", "loss", "main", "np", "number", "record", "recorder", "snapshot", "state", "step"),
    *("batches", "evaluated", "given", "held_out", "mapping", "model", "run", "together", "torch", "training"),
}
"""Names in train.py that a script's own must not take."""


def write_trainer(
    folder: Path,
    observation: Observation,
    source: LossSource,
    step: StepFacts,
    orders: Mapping[str, Sequence[int]],
    loaders: Mapping[str, Any],
    batches: int | None,
) -> list[str]:
    """Write them, and see that they give the script's own data; returns what a person has to know of them.

    Args:
        folder: where train_step.py is.
        observation: of the script.
        source: of the path from a batch to its loss.
        step: what train_step.py says.
        orders: of each input's axes in JAX.
        loaders: the script's DataLoaders, by name.
        batches: an epoch's updates, where a schedule counts them.

    Raises:
        UsageError: the script's loop is not plain; says the line, and what to write.
    """
    from port.translation.codegen.emit import formatted

    if step.takes_rate:
        raise UsageError("the script sets the learning rate by hand: compute it before each call of train_step")
    parts = _parts(source, observation)
    training = _loader(observation, next(iter({told["batch"] for told in source.told})))
    _check_microbatches(training, step.microbatches)
    evaluation, is_average, remarks = _evaluation(observation, source, step.average)
    loop = loop_of(observation, training, evaluation)
    _check_name(loop)
    if evaluation is not None and "evaluation" not in loop.loaders:
        evaluation = None
    written_for = _written_for(loop, observation, step.rate_option)
    original = formatted(original_source(loop, step.script, observation.options))
    facts = TrainerFacts(
        script=step.script,
        command="python train_jax/train.py",
        folder=str(loop.file.parent) if _imports_its_own(loop) else None,
        parts=parts,
        orders=orders,
        flags=[flag for option in observation.options for flag in option["flags"]],
        written_for=written_for,
        epoch=loop.epoch if loop.epoch not in OWN_NAMES else "epoch",
        every=_every(loop),
        evaluation=place_of(observation.evaluation[0]["where"]) if evaluation is not None else None,
        evaluates_at_end=loop.evaluates_at_end,
        batches=batches,
        rate=step.rate_option if step.rate_option not in written_for else None,
        forks=any(one["workers"] for one in observation.loaders),
        microbatches=step.microbatches,
        drops=step.drops,
        evaluates_average=is_average,
    )
    (folder / "original.py").write_text(original, "utf-8")
    try:
        check_data(folder / "original.py", loop, loaders, training, evaluation)
    except UsageError:
        (folder / "original.py").unlink()
        raise
    (folder / "train.py").write_text(formatted(trainer_source(facts)), "utf-8")
    watched = WatchedOriginal(
        modules=source.modules,
        parts=tuple(parts.values()),
        training=training["name"],
        evaluation=evaluation["name"] if evaluation is not None else None,
        microbatches=step.microbatches,
        averages={step.average.of: step.average.name} if step.average is not None and is_average else {},
        precisions=("float64",) if precision_of(observation) is not None else ("float64", "float32"),
    )
    watched.write(folder)
    return [*remarks, *_remarks(loop, written_for, observation)]


def _parts(source: LossSource, observation: Observation) -> dict[str, str]:
    """Where in a batch each input of train_step is."""
    for name, told in zip(source.inputs, source.told, strict=True):
        if "batch" not in told:
            begun = place_of(observation.steps[0][0]["where"])
            raise UsageError(
                f"{name}, which train_step is given, is no part of a DataLoader's batch but made in the loop (that "
                f"begins at {begun}): write its making, and call train_step with arrays"
            )
    if len({told["batch"] for told in source.told}) > 1:
        raise UsageError("an update takes batches of several loaders: write the loop over both")
    return {name: told["part"] for name, told in zip(source.inputs, source.told, strict=True)}


def _loader(observation: Observation, name: str) -> Event:
    return next(one for one in observation.loaders if one["name"] == name)


def _check_microbatches(training: Event, count: int) -> None:
    """Whether every update is of whole microbatches, all of one size.

    Raises:
        UsageError: some are left over at an epoch's end.
    """
    if count == 1:
        return
    batches, examples, size = training["batches"], training["length"], training["batch_size"]
    is_whole = training["drop_last"] or (examples is not None and size and examples % size == 0)
    if not batches or batches % count or not is_whole:
        raise UsageError(
            f"an update is of {count} batches of {training['name']}, which has {batches} in an epoch"
            f"{'' if is_whole else ', the last of them smaller'}: what is left over at its end goes into the next "
            "epoch's gradients, or is lost. Drop it (drop_last=True, a length that divides), or write the loop around "
            "train_step"
        )


def _evaluation(
    observation: Observation, source: LossSource, average: WeightAverage | None
) -> tuple[Event | None, bool, list[str]]:
    """The loader of the evaluation, whether the weights' average is evaluated, and what of it is not taken over."""
    events = observation.evaluation
    if not events:
        return None, False, []
    where = place_of(events[0]["where"])
    batch = next((event for event in events if event["event"] == "batch"), None)
    if batch is None:
        return (
            None,
            False,
            [f"{where}: the evaluation's batches are from no DataLoader: model.eval(), and the loss of arrays"],
        )
    called = {
        event["name"].partition(".")[0] for event in events if event["event"] == "call" and event["has_parameters"]
    }
    is_average = average is not None and called == {average.name}
    others = called - set(source.modules)
    if others and not is_average:
        return (
            None,
            False,
            [f"{where}: the evaluation is of {', '.join(sorted(others))}, which train_step does not train"],
        )
    if not all(told["part"] in batch["parts"] for told in source.told):
        return (
            None,
            False,
            [f"{where}: the evaluation's batches have other parts than training's: write it with model.eval()"],
        )
    remark = f"{where}: train.py's evaluation is the mean over examples of training's loss"
    lines = list(dict.fromkeys(place_of(event["where"]) for event in events if event["event"] == "number"))
    if lines:
        remark += f"; numbers that the original makes there besides are to be written: {', '.join(lines)}"
    return _loader(observation, batch["name"]), is_average, [remark]


def _check_name(loop: EpochLoop) -> None:
    for one in [*loop.taken.definitions, *loop.taken.body]:
        names = [one.module or ""] if isinstance(one, ast.ImportFrom) else []
        names += [name.name for name in one.names] if isinstance(one, ast.Import) else []
        for name in names:
            if name.partition(".")[0] in ("model", "train_step", "original"):
                raise UsageError(
                    f"{loop.file.name}:{one.lineno} imports {name}, which is also the name of a written file: give the "
                    "script's own another name, or write the loop around train_step"
                )


def _imports_its_own(loop: EpochLoop) -> bool:
    """Whether what is taken over imports a module that lies beside the script."""
    names = set()
    for one in [*loop.taken.definitions, *loop.taken.body]:
        names |= {one.module or ""} if isinstance(one, ast.ImportFrom) else set()
        names |= {name.name for name in one.names} if isinstance(one, ast.Import) else set()
    roots = [loop.file.parent / name.partition(".")[0] for name in names if name]
    return any(root.is_dir() or root.with_suffix(".py").is_file() for root in roots)


def _written_for(loop: EpochLoop, observation: Observation, rate: str | None) -> dict[str, Any]:
    """The options that are used elsewhere than in what is taken over, with their values."""
    found = {}
    for option in observation.options:
        is_rate = option["name"] == rate and not loop.hands_options_on()
        if not is_rate and not loop.is_free(option["name"]):
            found[option["name"]] = option["given"]
    return found


def _every(loop: EpochLoop) -> str:
    match loop.every:
        case ast.Attribute(attr=name):
            return f"args.{name}"
        case ast.Constant(value=int() as value) if value > 0:
            return str(value)
    return "10"


def _remarks(loop: EpochLoop, written_for: dict[str, Any], observation: Observation) -> list[str]:
    found = []
    for jump in loop.jumps:
        word = "break" if isinstance(jump, ast.Break) else "continue"
        found.append(f"{loop.file.name}:{jump.lineno} has a {word} among the batches: train.py takes every batch")
    for event in observation.saved:
        found.append(f"{place_of(event['where'])} saves: train.py keeps its State by Orbax, once an epoch")
    for event in observation.printed:
        found.append(f"{place_of(event['where'])} prints: train.py prints the loss every {_every(loop)} updates")
    if written_for:
        names = ", ".join(f"{name} {value!r}" for name, value in written_for.items())
        found.append(f"options that keep their values, as they are used where train_step.py was written: {names}")
    shuffled = [one["name"] for one in observation.loaders if one["shuffle"]]
    if shuffled:
        found.append(
            f"{', '.join(shuffled)} is shuffled by torch's generator, from which the original also draws its weights "
            "and its dropout: the order is another one than the original's"
        )
    return found
