"""Write the update of an observed script, if possible, and prove it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

import port
from port.errors import PortError, UsageError
from port.parity.sides.precision import default_dtype
from port.random.dropout import drops_within_layers
from port.scripts.events import read_events
from port.scripts.observation import Observation
from port.scripts.observing.graph import Computation
from port.scripts.trained_modules import FILE, torch_loss
from port.scripts.wording import place_of
from port.scripts.writing.averaging import average_of
from port.scripts.writing.capture import Capture, Copies, LossPath, path_tensors
from port.scripts.writing.clipping import clipping_of_update
from port.scripts.writing.followed import followed
from port.scripts.writing.free_numbers import FreeNumbers, free_numbers
from port.scripts.writing.in_evaluation import in_evaluation
from port.scripts.writing.later_names import with_later_names
from port.scripts.writing.loss_source import CLASS, LossSource, loss_source, names_of_numbers, varying_numbers
from port.scripts.writing.lower_precision import precision_of, scale_of
from port.scripts.writing.number_names import with_common_numbers
from port.scripts.writing.optimizing import (
    freeze_the_others,
    optimizer_event,
    optimizer_of,
    optimizer_words,
    rates_of,
    scheduler_events,
    schedulers_of,
    stepped,
    steps_needed,
    updates_per_epoch,
)
from port.scripts.writing.own_evaluation_files import EvaluationWriter
from port.scripts.writing.plateau import plateau_step
from port.scripts.writing.proof import TorchUpdates, prove
from port.scripts.writing.rank_batches import inputs_of_paths, of_all_ranks
from port.scripts.writing.replaying import (
    all_doubled,
    check_is_mean_of_parts,
    check_replayed,
    draws_besides_dropout,
    put_into_float64,
    switch_dropout_off,
)
from port.scripts.writing.shaping import shaping_of
from port.scripts.writing.standalone import make_standalone, no_change
from port.scripts.writing.states import with_states
from port.scripts.writing.step_proof import StepProof
from port.scripts.writing.step_source import PARAMETERS, StepFacts, call_of, step_source
from port.scripts.writing.trainer import trainer_or_reason, write_trainer
from port.scripts.writing.turns.trainer import turns_result
from port.scripts.writing.unwritten import (
    has_closure,
    rate_is_given,
    reasons_against,
    remarks_beside,
    remarks_on_averages,
    takes_turns,
)
from port.scripts.writing.watched_script import WatchedScript
from port.translation.codegen.emit import formatted

FOLDER, RESULT = "written", "written.json"


def write_update(work: Path, script: str, capture: Capture, *, standalone: bool = False) -> None:
    """Write the update into ``work/written``, if possible, and the result into ``work/written.json``.

    Args:
        work: holds the journal.
        script: the script's name.
        capture: the captured steps.
        standalone: whether to copy what the files use of port into them.
    """
    observation = Observation.of(read_events(work / "events.jsonl"), {})
    result: dict[str, Any] = {"remarks": remarks_beside(observation), "proof": None, "call": "", "no_trainer": ""}
    in_turn = takes_turns(observation)
    paths = [path if in_turn else followed(path) for path in capture.paths if path.calls]
    paths = paths if in_turn else with_common_numbers(with_states(paths))
    result["reasons"] = reasons_against(observation, paths) or [*filter(None, [capture.failure])]
    if not result["reasons"] and capture.copies is not None:
        try:
            write = turns_result if in_turn else partial(_result, paths)
            finish = make_standalone if standalone else no_change
            found = write(WatchedScript(work / FOLDER, script, observation, capture, finish))
            finish(work / FOLDER)
            result.update(found, remarks=[*result["remarks"], *found["remarks"]])
        except PortError as error:
            result["reasons"].append(str(error))
        except ModuleNotFoundError as error:
            result["reasons"].append(f"the Python that runs the script has no {error.name}, which is needed here")
        except Exception as error:
            first = (str(error).splitlines() or ["no message"])[0][:300]
            result["reasons"].append(f"a bug in port, please report it: {type(error).__name__}: {first}")
    (work / RESULT).write_text(json.dumps(result), "utf-8")


def _result(paths: Sequence[LossPath], watched: WatchedScript) -> dict[str, Any]:
    """Write the update of one optimizer and the trainer around it; returns the result."""
    proof, written = _written(watched, paths)
    averages = remarks_on_averages(watched.observation) if written.facts.average is None else []
    no_trainer, left = _trainer(watched, written)
    return {
        "call": call_of(written.facts),
        "no_trainer": no_trainer,
        "remarks": [*averages, *left],
        "proof": proof.as_data(),
    }


def _written(watched: WatchedScript, paths: Sequence[LossPath]) -> tuple[StepProof, _Written]:
    """Write the update; returns the proof, and what was written."""
    from port.translation.folder import write_folder

    assert watched.capture.copies is not None
    folder, script, observation = watched.folder, watched.name, watched.observation
    copies, made = watched.capture.copies, watched.capture.paths
    closure = has_closure(observation)
    varying = varying_numbers(paths)
    whole = of_all_ranks(folder.parent, inputs_of_paths(paths))
    paths = paths[: len(whole.losses)]
    updates = _updates(paths, closure=closure)
    inputs_by_path = dict(zip(map(id, paths), whole.inputs, strict=True))
    said = names_of_numbers(paths, varying)
    source = with_later_names(loss_source(paths[0], script, varying, said), paths[1:], varying, said)
    if source.states and (closure or len(updates[0]) > 1):
        count = "several" if closure else len(updates[0])
        raise UsageError(f"{source.states[0]} is carried over within an update of {count} backwards")
    folder.parent.mkdir(parents=True, exist_ok=True)
    module, construct = _module(source, copies, folder.parent / FILE)
    evaluating = in_evaluation(module)
    example = whole.inputs[0]
    optimizer = optimizer_of(observation, copies, module)
    freeze_the_others(module, optimizer)
    check_replayed(module, example, whole.losses[0] / scale_of(observation), precision_of(observation))
    for batch, parts in zip(whole.inputs, whole.parts, strict=True):
        check_is_mean_of_parts(module, batch, parts)
    translation = port.translate(module, tuple(example.values()), name="model", construct=construct)
    if translation.unwritten:
        raise UsageError(f"no pair covers these parts of the model: {', '.join(map(str, translation.unwritten))}")
    write_folder(translation, folder, name="model")
    (folder / FILE).write_text((folder.parent / FILE).read_text("utf-8"), "utf-8")
    clipping = clipping_of_update(observation, module)
    schedulers = schedulers_of(observation, copies)
    rates = rates_of(observation) if rate_is_given(observation) else []
    for group in optimizer.param_groups if rates else ():
        group["lr"] = 1.0  # train_step multiplies by its rate argument
    plateau = plateau_step(observation)
    counts = any(not isinstance(one, ReduceLROnPlateau) for one in schedulers)
    per_epoch = updates_per_epoch(observation, len(updates[0])) if counts else None
    write = partial(
        port.optax_source,
        optimizer,
        scheduler=schedulers or None,
        steps_per_epoch=per_epoch,
        mapping=translation.mapping if len(optimizer.param_groups) > 1 else None,
        model=module if len(optimizer.param_groups) > 1 else None,
        **clipping.options,
    )
    write = partial(write, **steps_needed(write, copies.planned, len(updates[0]), per_epoch))
    free = FreeNumbers((), (), write())
    event = optimizer_event(observation)
    if event is not None and not rates:
        events = [(optimizer, event, None), *scheduler_events(observation, copies)]
        free = free_numbers(observation, optimizer, schedulers, events, write, {*source.inputs, *PARAMETERS})
    facts = StepFacts(
        script,
        source.inputs,
        len(updates[0]),
        free.optax,
        *optimizer_words(observation),
        takes_rate=bool(rates),
        numbers=free.numbers,
        covered=free.covered,
        drops=bool(translation.draws.get(True, ())) or drops_within_layers(module),
        states=source.states,
        draws_in_evaluation=bool(translation.draws.get(False, ())),
        evaluates=evaluating,
        plateau=place_of(plateau["where"]) if plateau is not None else None,
        average=average_of(observation, copies.models),
        closure=closure,
    )
    (folder / "train_step.py").write_text(formatted(step_source(facts)), "utf-8")
    in_step = [copies.schedulers[name] for name in stepped(observation.steps[0])]
    if closure and facts.drops:
        raise UsageError(
            "a closure is evaluated several times an update, and each time its model draws another dropout"
        )
    batches = [[all_doubled(inputs_by_path[id(path)]) for path in one] for one in updates]
    watched.finish(folder)
    if not source.states and not evaluating:
        shaping = shaping_of(observation, copies, source.modules, translation, construct, folder)
        facts = replace(facts, shaping=shaping)
    put_into_float64([module], [optimizer])
    goes_on = [one[0].goes_on for one in updates]
    with default_dtype("float64"):
        layouts = translation.draws.get(True, ()) if draws_besides_dropout(module, batches[0][0]) else None
        side = TorchUpdates(module, optimizer, in_step, clipping.clip, layouts, closure=closure)
        if layouts is None:
            switch_dropout_off(module)
        proof = prove(side, batches, rates, folder, translation, states=source.states, goes_on=goes_on)
    orders = {name: layouts[0].order for name, layouts in translation.boundary.layouts.items() if layouts}
    observed = [inputs_by_path[id(path)] for one in updates for path in one]
    names = [
        call.name
        for call in paths[0].calls
        if not any("flattened" in one.description for one in path_tensors(call.live))
    ]
    calls = {call.number: call for path in made[:1] for call in path.calls}
    draws = [[*watched.capture.draws.before(path.calls[0].number)] for one in updates for path in one]
    return proof, _Written(facts, source, orders, per_epoch, observed, names, calls, draws)


@dataclass(frozen=True)
class _Written:
    """An update, for the trainer around it: the facts of train_step.py, its path, its inputs' axes, and the inputs.

    The calls are those of the first loss, by number, including those that made its inputs; ``draws`` are functions that
    restore the generators' states before each batch.
    """

    facts: StepFacts
    source: LossSource
    orders: Mapping[str, Sequence[int]]
    updates_per_epoch: int | None
    observed: Sequence[Mapping[str, torch.Tensor]]
    names: Sequence[str]
    calls: Mapping[int, Computation]
    draws: Sequence[Sequence[Callable[[], None]]]


def _trainer(watched: WatchedScript, written: _Written) -> tuple[str, list[str]]:
    """Write train.py; returns why there is none, if so, and what is left to the user."""
    assert watched.capture.copies is not None
    write = partial(
        write_trainer,
        watched.folder,
        watched.observation,
        written.source,
        written.facts,
        written.orders,
        watched.capture.loaders,
        written.updates_per_epoch,
        observed=written.observed,
        names=written.names,
        calls=written.calls,
        evaluation_writer=EvaluationWriter(
            watched.folder,
            watched.name,
            watched.observation,
            watched.capture.evaluated,
            watched.capture.copies,
            written.source,
            written.orders,
        ),
        draws=written.draws,
    )
    return trainer_or_reason(write, watched.observation)


def _module(source: LossSource, copies: Copies, file: Path) -> tuple[torch.nn.Module, Callable[..., torch.nn.Module]]:
    """The torch module that computes the loss, with copies of the script's models, and its constructor.

    The constructor takes changed arguments of the models' constructors, by the models' names.
    """
    file.write_text(source.text, "utf-8")
    cls: type[torch.nn.Module] = getattr(torch_loss(file), CLASS)
    module = cls(*(copies.models[name] for name in source.modules))

    def construct(other: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> torch.nn.Module:
        made: torch.nn.Module = cls(*(copies.constructors[name](**other.get(name, {})) for name in source.modules))
        return made

    return module, construct


def _updates(paths: Sequence[LossPath], *, closure: bool) -> list[list[LossPath]]:
    """The paths of each complete update; for a closure that is evaluated several times, the first."""
    by_iteration: dict[int, list[LossPath]] = {}
    for path in paths:
        by_iteration.setdefault(path.iteration, []).append(path)
    updates = [one[:1] if closure else one for one in by_iteration.values()]
    return [one for one in updates if len(one) == len(updates[0])]
