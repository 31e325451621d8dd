"""Writes the update of an observed script, where it can be written, and proves it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

import port
from port.errors import PortError, UsageError
from port.scripts.events import Event, read_events
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.averaging import average_of
from port.scripts.writing.capture import Capture, Copies, LossPath
from port.scripts.writing.free_rate import free_rate
from port.scripts.writing.loss_source import CLASS, LossSource, inputs_of, loss_source, varying_numbers
from port.scripts.writing.lower_precision import in_precision, precision_of, scale_of
from port.scripts.writing.optimizing import (
    freeze_the_others,
    optimizer_event,
    optimizer_of,
    optimizer_words,
    rates_of,
    schedulers_of,
    stepped,
    updates_per_epoch,
)
from port.scripts.writing.proof import StepProof, TorchUpdates, prove
from port.scripts.writing.step_source import StepFacts, call_of, step_source
from port.scripts.writing.trainer import write_trainer
from port.scripts.writing.unwritten import (
    rate_is_given,
    reasons_against,
    remarks_around,
    remarks_beside,
    remarks_on_averages,
)

FOLDER, RESULT = "written", "written.json"
REPLAY_LIMIT = 1e-4
"""By how much a float32 loss that is computed again may differ from the observed one, relatively."""
LOW_REPLAY_LIMIT = 2e-2
"""And one that autocast computes in a lower precision."""


def write_update(work: Path, script: str, capture: Capture) -> None:
    """Write what can be written into ``work/written``, and what came of it into ``work/written.json``.

    Args:
        work: holds the journal.
        script: the script's name.
        capture: what was kept of its steps.
    """
    observation = Observation.of(read_events(work / "events.jsonl"), {})
    result: dict[str, Any] = {"remarks": remarks_beside(observation), "proof": None, "call": "", "no_trainer": ""}
    result["reasons"] = [capture.failure] if capture.failure else reasons_against(observation, capture.paths)
    if not result["reasons"] and capture.copies is not None:
        try:
            proof, written = _written(work / FOLDER, script, observation, capture.paths, capture.copies)
            result["call"] = call_of(written.facts)
            if written.facts.average is None:
                result["remarks"] += remarks_on_averages(observation)
            trainer = _trainer(work / FOLDER, observation, capture, written)
            result["no_trainer"], result["remarks"] = trainer["reason"], [*result["remarks"], *trainer["remarks"]]
            result["proof"] = {
                "losses": proof.losses,
                "loss": proof.loss,
                "weights": proof.weights,
                "status": str(proof.status),
            }
        except PortError as error:
            result["reasons"].append(str(error))
        except ModuleNotFoundError as error:
            result["reasons"].append(f"the Python that runs the script has no {error.name}, and that is needed here")
        except Exception as error:
            first = (str(error).splitlines() or ["no message"])[0][:300]
            result["reasons"].append(f"a fault of port's, please report it: {type(error).__name__}: {first}")
    (work / RESULT).write_text(json.dumps(result), "utf-8")


def _written(
    folder: Path, script: str, observation: Observation, paths: Sequence[LossPath], copies: Copies
) -> tuple[StepProof, _Written]:
    """Writes the update; returns the proof, and what was written."""
    from port.translation.codegen.emit import formatted
    from port.translation.folder import write_folder

    updates = _updates(paths)
    varying = varying_numbers(paths)
    source = loss_source(paths[0], script, varying)
    folder.parent.mkdir(parents=True, exist_ok=True)
    module = _module(source, copies, folder.parent / "torch_loss.py")
    example = inputs_of(paths[0], varying)
    optimizer = optimizer_of(observation, copies, module)
    freeze_the_others(module, optimizer)
    _check_replayed(module, example, paths[0].value / scale_of(observation), precision_of(observation))
    translation = port.translate(module, tuple(example.values()), name="model")
    if translation.unwritten:
        raise UsageError(f"the model has what no pair speaks of: {', '.join(map(str, translation.unwritten))}")
    write_folder(translation, folder, name="model")
    (folder / "torch_loss.py").write_text((folder.parent / "torch_loss.py").read_text("utf-8"), "utf-8")
    options, clip = _around(observation, module)
    schedulers = schedulers_of(observation, copies)
    rates = rates_of(observation) if rate_is_given(observation) else []
    for group in optimizer.param_groups if rates else ():
        group["lr"] = 1.0  # train_step multiplies by the rate that it is given
    per_epoch = updates_per_epoch(observation, len(updates[0])) if schedulers else None
    write = partial(
        port.optax_source,
        optimizer,
        scheduler=schedulers or None,
        steps_per_epoch=per_epoch,
        mapping=translation.mapping if len(optimizer.param_groups) > 1 else None,
        model=module if len(optimizer.param_groups) > 1 else None,
        **options,
    )
    free = None
    event = optimizer_event(observation)
    if event is not None and not rates and "lr" not in source.inputs:
        free = free_rate(observation, event, optimizer, schedulers, write)
    facts = StepFacts(
        script,
        source.inputs,
        len(updates[0]),
        free.optax if free else write(),
        *optimizer_words(observation),
        takes_rate=bool(rates),
        rate=free.value if free else None,
        rate_option=free.option if free else None,
        drops=bool(translation.draws.get(True, ())),
        average=average_of(observation, copies.models),
    )
    (folder / "train_step.py").write_text(formatted(step_source(facts)), "utf-8")
    in_step = [copies.schedulers[name] for name in stepped(observation.steps[0])]
    side = TorchUpdates(_in_float64(module, optimizer), optimizer, in_step, clip)
    batches = [[_double(inputs_of(path, varying)) for path in one] for one in updates]
    proof = prove(side, batches, rates, folder, translation)
    orders = {name: layouts[0].order for name, layouts in translation.boundary.layouts.items() if layouts}
    return proof, _Written(facts, source, orders, per_epoch)


@dataclass(frozen=True)
class _Written:
    """An update, for the trainer around it: what train_step.py says, the path, axes of inputs, updates of an epoch."""

    facts: StepFacts
    source: LossSource
    orders: Mapping[str, Sequence[int]]
    updates_per_epoch: int | None


def _trainer(folder: Path, observation: Observation, capture: Capture, written: _Written) -> dict[str, Any]:
    """Writes train.py; returns why there is none, if so, and what is left to a person."""
    try:
        remarks = write_trainer(
            folder,
            observation,
            written.source,
            written.facts,
            written.orders,
            capture.loaders,
            written.updates_per_epoch,
        )
        return {"reason": "", "remarks": remarks}
    except UsageError as error:
        return {"reason": str(error), "remarks": remarks_around(observation)}


def _module(source: LossSource, copies: Copies, file: Path) -> torch.nn.Module:
    """The torch module from a batch to its loss, with copies of the script's models in it."""
    file.write_text(source.text, "utf-8")
    spec = spec_from_file_location("torch_loss", file)
    assert spec is not None and spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    module: torch.nn.Module = getattr(made, CLASS)(*(copies.models[name] for name in source.modules))
    return module


def _check_replayed(
    module: torch.nn.Module, example: dict[str, torch.Tensor], observed: float, precision: Event | None
) -> None:
    """Whether the written path gives the loss that the script had; where a model draws, two runs differ anyway.

    Raises:
        UsageError: it gives another.
    """
    with in_precision(precision):
        first, second = (float(copy.deepcopy(module)(**example).detach()) for _ in range(2))
    limit = REPLAY_LIMIT if precision is None else LOW_REPLAY_LIMIT
    if first == second and abs(first - observed) > limit * max(1.0, abs(observed)):
        raise UsageError(f"the path that was seen gives the loss {first:.6g}, and the script's was {observed:.6g}")


def _updates(paths: Sequence[LossPath]) -> list[list[LossPath]]:
    """The paths by update, those of whole ones."""
    by_iteration: dict[int, list[LossPath]] = {}
    for path in paths:
        by_iteration.setdefault(path.iteration, []).append(path)
    updates = list(by_iteration.values())
    return [one for one in updates if len(one) == len(updates[0])]


def _around(observation: Observation, module: torch.nn.Module) -> tuple[dict[str, Any], Callable[[], object]]:
    """The options of `port.optax_source` that clip, and the same in torch.

    Raises:
        UsageError: gradients are clipped twice, or of a part of the model.
    """
    clips = [event for event in observation.steps[0] if event["event"] == "clip"]
    if not clips:
        return {}, lambda: None
    if len(clips) > 1:
        raise UsageError(f"gradients are clipped {len(clips)} times in an update, at {place_of(clips[1]['where'])}")
    (event,) = clips
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if event["count"] < len(trained):
        raise UsageError(f"{place_of(event['where'])} clips a part of the gradients: optax.masked around the clipping")
    given = [*event["arguments"], *event["named"].values()]
    if event["function"] == "clip_grad_value_":
        return {"clip_value": given[0]}, partial(torch.nn.utils.clip_grad_value_, trained, *given)
    norm_type = float(given[1]) if len(given) > 1 and isinstance(given[1], int | float) else 2.0
    options = {"clip_norm": given[0]} if norm_type == 2.0 else {"clip_norm": given[0], "norm_type": norm_type}
    return options, partial(torch.nn.utils.clip_grad_norm_, trained, given[0], norm_type)


def _in_float64(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> torch.nn.Module:
    """The module in float64 and without dropout, whose masks the two sides do not share; the optimizer's state too."""
    module.double()
    for one in module.modules():
        if isinstance(one, torch.nn.modules.dropout._DropoutNd):
            one.p = 0.0
    for state in optimizer.state.values():
        state.update({k: v.double() for k, v in state.items() if isinstance(v, torch.Tensor) and v.is_floating_point()})
    return module


def _double(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: one.double() if one.is_floating_point() else one for name, one in batch.items()}
