"""Decide what a written trainer copies from a script's loop, and collect remarks for the user."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.loop import EpochLoop
from port.scripts.writing.main_of_steps import SAVED_EVERY
from port.scripts.writing.own_calls import Function

OWN_NAMES = {
    *("args", "arrays", "batch", "batch_number", "data", "done", "dtype", "epochs", "evaluate", "graphdef", "jax"),
    *("keeper", "kept", "loaders", "loss", "main", "np", "number", "record", "recorder", "snapshot", "state", "step"),
    *("batch_arrays", "batches", "evaluated", "held_out", "mapping", "model", "run", "together", "torch", "training"),
    *("evaluation", "fixed", "fixed_inputs", "hyperparameters", "inputs", "losses", "measure", "measured", "mesh"),
    *("numbers_of", "parted", "placed", "sampled", "told", "whole"),
}
"""Names in train.py that the script's modules must not have."""


def check_names(loop: EpochLoop) -> None:
    """Check that no module that the copied code imports has a written file's name.

    Raises:
        UsageError: one has.
    """
    for one in [*loop.taken.definitions, *loop.taken.body]:
        names = [one.module or ""] if isinstance(one, ast.ImportFrom) else []
        names += [name.name for name in one.names] if isinstance(one, ast.Import) else []
        for name in names:
            if name.partition(".")[0] in ("model", "train_step", "original", "evaluation"):
                raise UsageError(
                    f"{loop.file.name}:{one.lineno} imports {name}, which is also the name of a written file: rename "
                    "the script's module, or write the loop around train_step"
                )


def imports_its_own(loop: EpochLoop) -> bool:
    """Whether the copied code imports a module from the script's folder."""
    names = set()
    for one in [*loop.taken.definitions, *loop.taken.body]:
        names |= {one.module or ""} if isinstance(one, ast.ImportFrom) else set()
        names |= {name.name for name in one.names} if isinstance(one, ast.Import) else set()
    roots = [loop.file.parent / name.partition(".")[0] for name in names if name]
    return any(root.is_dir() or root.with_suffix(".py").is_file() for root in roots)


def values_kept(loop: EpochLoop, observation: Observation) -> dict[str, Any]:
    """The options that are used outside the copied code, with their values."""
    return {one["name"]: one["given"] for one in observation.options if not loop.is_free(one["name"])}


def interval(loop: EpochLoop) -> str:
    """Return the source of the number of batches between two prints: the script's option or number, otherwise 10."""
    match loop.every:
        case ast.Attribute(attr=name):
            return f"args.{name}"
        case ast.Constant(value=int() as value) if value > 0:
            return str(value)
    return "10"


def remarks_of(
    loop: EpochLoop,
    written_for: Mapping[str, Any],
    observation: Observation,
    taken: Collection[int] = (),
    *,
    tells: bool = False,
) -> list[str]:
    """Remarks for the user.

    Args:
        loop: the script's loop.
        written_for: the options with fixed values.
        observation: the script's observation.
        taken: the lines copied with its evaluation, its prints and its exits from the loop.
        tells: whether any of them print.
    """
    found = []
    often = f"every {SAVED_EVERY} updates" if loop.is_planned else "once an epoch"
    for jump in loop.jumps:
        if jump.lineno in taken:
            continue
        word = "break" if isinstance(jump, ast.Break) else "continue"
        found.append(f"{loop.file.name}:{jump.lineno} has a {word} among the batches: train.py takes every batch")
    for event in observation.saved:
        found.append(f"{place_of(event['where'])} saves: train.py saves its State with Orbax, {often}")
    before = [event for event in observation.printed if _is_before(loop, event["where"])]
    if before:
        lines = ", ".join(str(event["where"]["line"]) for event in before)
        found.append(f"{loop.file.name}:{lines}: what is printed before the training is left out")
    for event in observation.printed:
        if event in before:
            continue
        if event["where"] and event["where"]["line"] in taken and Path(event["where"]["file"]) == loop.file:
            continue
        instead = "left out" if tells else f"train.py prints the loss every {interval(loop)} updates"
        found.append(f"{place_of(event['where'])} prints: {instead}")
    if written_for:
        names = ", ".join(f"{name} {value!r}" for name, value in written_for.items())
        found.append(f"fixed options, because train_step.py was written for their values: {names}")
    shuffled = [one["name"] for one in observation.loaders if one["shuffle"]]
    if shuffled:
        found.append(
            f"{', '.join(shuffled)} is shuffled by torch's generator, from which the original also draws its weights "
            "and its dropout: the order is another one than the original's"
        )
    return found


def _is_before(loop: EpochLoop, where: Event | None) -> bool:
    """Whether a line is before the loop over the epochs, in the same block or at the script's top level."""
    if where is None or loop.statement is None or Path(where["file"]) != loop.file:
        return False
    functions = [one for one in ast.walk(loop.tree) if isinstance(one, Function)]
    around = [one.name for one in functions if any(inner is loop.statement for inner in ast.walk(one))]
    return where["function"] in {"<module>", *around} and where["line"] < loop.statement.lineno
