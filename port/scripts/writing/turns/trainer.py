"""Write train.py around an update of several optimizers in turn, with the other work of the script's loop."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from port.errors import UsageError
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.step_source import StepFacts
from port.scripts.writing.trainer import InTurn, trainer_or_reason, write_trainer
from port.scripts.writing.turns.sampling import INPUTS, KEPT, samples_source, samplings
from port.scripts.writing.turns.step_source import turns_call
from port.scripts.writing.turns.update import WrittenTurns, write_turns
from port.scripts.writing.watched_script import WatchedScript
from port.translation.codegen.emit import formatted


def turns_result(watched: WatchedScript) -> dict[str, Any]:
    """Write the update and the trainer around it; returns the result for ``written.json``."""
    written = write_turns(watched)
    no_trainer, left = trainer_or_reason(partial(write_turns_trainer, watched, written), watched.observation)
    return {
        "call": turns_call(written.facts),
        "no_trainer": no_trainer,
        "turns": len(written.facts.turns),
        "remarks": left,
        "proof": written.proof.as_data(),
    }


def write_turns_trainer(watched: WatchedScript, written: WrittenTurns) -> list[str]:
    """Write train.py and original.py; returns remarks for the user.

    Raises:
        UsageError: the script's loop is too complex, or its models draw dropout.
    """
    facts, models = written.facts, written.models
    if models.draws:
        raise UsageError(
            "its models draw dropout, whose masks the two sides cannot share when several optimizers step in turn: "
            "write the loop around train_step"
        )
    descriptions = {name: one for source in reversed(facts.sources) for name, one in source.descriptions.items()}
    modules = tuple(dict.fromkeys(name for source in facts.sources for name in source.modules))
    source = LossSource("", facts.inputs, modules, tuple(descriptions[name] for name in facts.inputs))
    last = facts.turns[-1].updates[-1][0]
    return write_trainer(
        watched.folder,
        watched.observation,
        source,
        StepFacts(facts.script, facts.inputs, 1, "", "", ""),
        models.orders,
        watched.capture.loaders,
        written.updates_per_epoch,
        calls=written.calls,
        turns=InTurn(tuple(models.holders), last, partial(_sample, watched, written)),
    )


def _sample(watched: WatchedScript, written: WrittenTurns, epoch: str, options: str | None) -> tuple[bool, list[str]]:
    """Write samples.py and its tensors, if models are called in training mode for no loss."""
    from safetensors.numpy import load_file, save_file

    folder, copies = watched.folder, watched.capture.copies
    assert copies is not None
    found, remarks = samplings(watched.observation, copies.models, epoch=epoch, options=options)
    path = folder.parent / INPUTS
    arrays = load_file(path) if found and path.exists() else {}
    tensors = {}
    for one in found:
        order = written.models.order_of(one.model, arrays[one.key].ndim) if one.key in arrays else None
        if order is None or one.model not in written.models.holders:
            return False, [*remarks, f"{one.where} updates running statistics for no loss, and is left out"]
        tensors[one.tensor] = np.ascontiguousarray(arrays[one.key].transpose(order))
    if not found:
        return False, remarks
    save_file(tensors, folder / KEPT)
    facts, holders = written.facts, written.models.holders
    models = [[name for name in source.modules if name in holders] for source in facts.sources]
    (folder / "samples.py").write_text(formatted(samples_source(found, facts.script, epoch, holders, models)), "utf-8")
    names = ", ".join(dict.fromkeys(one.tensor for one in found))
    return True, [*remarks, f"{names}: the values that the original made when it was watched, in {KEPT}"]
