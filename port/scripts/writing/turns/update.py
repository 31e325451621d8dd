"""Write the update of an observed script whose optimizers step in turn, if possible, and prove it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import port
from port.errors import UsageError
from port.parity.sides.precision import default_dtype
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.observing.graph import Computation
from port.scripts.trained_modules import FILE, together, torch_loss
from port.scripts.wording import group_options, place_of
from port.scripts.writing.capture import Copies, LossPath
from port.scripts.writing.clipping import Clipping, clipping_of
from port.scripts.writing.constants import with_constants
from port.scripts.writing.number_names import with_common_numbers
from port.scripts.writing.optimizing import stepped, updates_per_epoch
from port.scripts.writing.replaying import (
    all_doubled,
    dropouts_in,
    is_replayed,
    put_into_float64,
    switch_dropout_off,
)
from port.scripts.writing.step_proof import StepProof
from port.scripts.writing.turns.models import WrittenModels, written_models
from port.scripts.writing.turns.order import Turn, optimizers_in_turn, turns_of
from port.scripts.writing.turns.paths import TurnPath, turn_paths
from port.scripts.writing.turns.proof import TorchTurns, prove_turns
from port.scripts.writing.turns.step_source import OptimizerFacts, TurnsFacts, turns_step_source
from port.scripts.writing.turns.torch_source import TurnSource, turn_inputs, turn_sources
from port.scripts.writing.watched_script import WatchedScript
from port.translation.codegen.emit import formatted


@dataclass(frozen=True)
class WrittenTurns:
    """The written update.

    Attributes:
        proof: the proof of the update.
        facts: the facts from which train_step.py is written.
        calls: the calls of the first step, by number.
        models: the turns in Flax.
        updates_per_epoch: the number of updates per epoch, if a schedule needs it.
    """

    proof: StepProof
    facts: TurnsFacts
    calls: dict[int, Computation]
    models: WrittenModels
    updates_per_epoch: int | None


def write_turns(watched: WatchedScript) -> WrittenTurns:
    """Write the update into a folder.

    Args:
        watched: the script.

    Raises:
        UsageError: it cannot be written, or the result differs from what was seen; the message names the line.
    """
    assert watched.capture.copies is not None
    folder, script, observation = watched.folder, watched.name, watched.observation
    copies = watched.capture.copies
    losses = _steps(observation, watched.capture.paths)
    turns = turns_of(observation, losses)
    steps = [turn_paths(turns, step, copies.models) for step in losses]
    text, sources = turn_sources(turns, steps, script)
    names = optimizers_in_turn(observation)
    roots = _roots(turns)
    folder.mkdir(parents=True)
    (folder / FILE).write_text(text, "utf-8")
    side = _torch_side(observation, folder / FILE, turns, sources, copies, names, roots)
    inputs = [[turn_inputs(path, one.varying) for path, one in zip(step, sources, strict=True)] for step in steps]
    examples = _check_replayed(side, inputs, steps, observation)
    models = written_models(folder, side, examples)
    per_epoch = (
        updates_per_epoch(observation, 1)
        if any(stepped(s) for s in (observation.steps[0], observation.epoch))
        else None
    )
    optimizers = [
        _optimizer(name, observation, side, models, roots[name], per_epoch, copies.schedulers) for name in names
    ]
    events = {name: event for turn in turns for name, event in turn.updates}
    places = {name: place_of(event["where"]) for name, event in events.items()}
    facts = TurnsFacts(script, turns, sources, optimizers, models.holders, places, models.moved)
    (folder / "train_step.py").write_text(formatted(turns_step_source(facts)), "utf-8")
    watched.finish(folder)
    put_into_float64(side.modules, side.optimizers.values())
    for module in side.modules:  # the two sides do not share the masks
        switch_dropout_off(module)
    doubled = [[all_doubled(its) for its in step] for step in inputs]
    named = [one for turn in facts.losses for one in turn]
    with default_dtype("float64"):
        proof = prove_turns(side, doubled, folder, facts.inputs, named, models.orders, models.mapping)
    calls = {call.number: call for path in losses[0] for call in path.calls}
    return WrittenTurns(proof, facts, calls, models, per_epoch)


def _steps(observation: Observation, paths: Sequence[LossPath]) -> list[list[LossPath]]:
    """The paths to the losses of each complete step, with constants folded.

    Raises:
        UsageError: they differ between steps.
    """
    by_iteration: dict[int, list[LossPath]] = {}
    for path in paths:
        by_iteration.setdefault(path.iteration, []).append(path)
    steps = [one for _, one in sorted(by_iteration.items())][: len(observation.steps)]
    kinds = [[tuple(call.name for call in path.calls) for path in step] for step in steps]
    if any(one != kinds[0] for one in kinds):
        raise UsageError(
            "the losses are not computed in the same way in all watched steps, perhaps because one model is trained "
            "several times for each step of another: write one function for each optimizer's update, and call them as "
            "the script does"
        )
    same = [with_common_numbers(with_constants(place)) for place in zip(*steps, strict=True)]
    return [list(step) for step in zip(*same, strict=True)]


def _roots(turns: Sequence[Turn]) -> dict[str, tuple[str, ...]]:
    """The models that each optimizer trains.

    Raises:
        UsageError: two train parts of the same model.
    """
    found = {name: tuple(event["roots"]) for turn in turns for name, event in turn.updates}
    held = [root for roots in found.values() for root in roots]
    for root in held:
        if held.count(root) > 1:
            both = " and ".join(name for name, roots in found.items() if root in roots)
            raise UsageError(
                f"{both} train parts of one model, {root}: one optimizer with a group for each part (optax.partition), "
                "or two modules"
            )
    return found


def _torch_side(
    observation: Observation,
    file: Path,
    turns: Sequence[Turn],
    sources: Sequence[TurnSource],
    copies: Copies,
    names: Sequence[str],
    roots: Mapping[str, Sequence[str]],
) -> TorchTurns:
    optimizers = {name: copies.optimizers[name] for name in names}
    trained = {id(p) for one in optimizers.values() for group in one.param_groups for p in group["params"]}
    for model in copies.models.values():
        for parameter in model.parameters():
            if id(parameter) not in trained:
                parameter.requires_grad_(False)
    made = torch_loss(file)
    modules = [getattr(made, one.name)(*(copies.models[name] for name in one.modules)) for one in sources]
    constructors = [partial(_constructed, getattr(made, one.name), one.modules, copies) for one in sources]
    models = {
        name: copies.models[name] for one in sources for name in one.modules if any(copies.models[name].state_dict())
    }
    schedulers = [copies.schedulers[name] for name in stepped(observation.steps[0])]
    clips = {name: _clipping(name, observation, optimizers[name], roots[name]).clip for name in names}
    return TorchTurns(turns, sources, modules, constructors, models, optimizers, schedulers, clips)


def _constructed(cls: type[torch.nn.Module], names: Sequence[str], copies: Copies) -> torch.nn.Module:
    """Construct a turn's module with freshly constructed models."""
    return cls(*(copies.constructors[name]() for name in names))


def _clipping(name: str, observation: Observation, optimizer: torch.optim.Optimizer, roots: Sequence[str]) -> Clipping:
    """How an optimizer's gradients are clipped.

    Raises:
        UsageError: only a part of them is clipped, or they are clipped twice.
    """
    events: list[Event] = []
    for event in observation.steps[0]:
        if event["event"] == "clip" and set(event["of"]) & set(roots):
            events.append(event)
    if not events:
        return Clipping()
    parameters = [one for group in optimizer.param_groups for one in group["params"] if one.requires_grad]
    (event, *more) = events
    if more or event["count"] != len(parameters) or set(event["of"]) != set(roots):
        raise UsageError(
            f"{place_of(events[-1]['where'])} clips gradients other than those that {name} uses, or clips them twice"
        )
    return clipping_of(event, parameters)


def _optimizer(
    name: str,
    observation: Observation,
    side: TorchTurns,
    models: WrittenModels,
    roots: tuple[str, ...],
    per_epoch: int | None,
    schedules: Mapping[str, Any],
) -> OptimizerFacts:
    event = next(one for one in observation.optimizers if one["name"] == name)
    optimizer = side.optimizers[name]
    stepping = dict.fromkeys([*stepped(observation.steps[0]), *stepped(observation.epoch)])
    schedulers = [one for one in (schedules[name] for name in stepping) if one.optimizer is optimizer]
    is_grouped = len(optimizer.param_groups) > 1
    source = port.optax_source(
        optimizer,
        scheduler=schedulers or None,
        steps_per_epoch=per_epoch if schedulers else None,
        mapping=models.mapping_of(roots) if is_grouped else None,
        model=together({root: side.models[root] for root in roots}) if is_grouped else None,
        **_clipping(name, observation, optimizer, roots).options,
    )
    words = " | ".join(dict.fromkeys(group_options(group["options"]) for group in event["groups"]))
    made = (event["constructed"] or {}).get("where")
    where = f"{Path(made['file']).name}:{made['line']}" if made else "no line of the script"
    return OptimizerFacts(name, source, f"{event['kind'].rpartition('.')[2]}, {words}.", where, roots)


def _check_replayed(
    side: TorchTurns,
    inputs: Sequence[Sequence[Mapping[str, torch.Tensor]]],
    steps: Sequence[Sequence[TurnPath]],
    observation: Observation,
) -> list[dict[str, torch.Tensor]]:
    """Check that these turns, run on copies, give the script's losses in all watched steps.

    Returns:
        each turn's inputs in the first step.

    Raises:
        UsageError: the losses differ.
    """
    twin = copy.deepcopy(side)
    examples: list[dict[str, torch.Tensor]] = []
    draws = any(True for module in side.modules for _ in dropouts_in(module))
    for number, (step, paths) in enumerate(zip(inputs, steps, strict=True)):
        losses, step_inputs = twin.update([dict(one) for one in step])
        examples = examples or step_inputs
        observed = [value for path in paths for value in path.values]
        for place, (ours, theirs) in enumerate(zip(losses, observed, strict=True)):
            if not draws and not is_replayed(ours, theirs):
                wheres = [event["where"] for event in observation.steps[number] if event["event"] == "backward"]
                raise UsageError(
                    f"repeating the watched updates gives the loss {ours:.6g} at {place_of(wheres[place])} in step "
                    f"{number}, but the script's loss was {theirs:.6g}: something between them was not seen"
                )
    return examples
