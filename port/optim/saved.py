"""Reads the optimizer in a torch training checkpoint."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping as Saved
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import BrokenWeights, UsageError, WeightsMismatch, described
from port.optim.naming import names_of
from port.optim.options import shown
from port.optim.state_dicts import LARGEST, check_form, check_memory, check_options, check_values, is_floating
from port.optim.unstepped import freeze
from port.pairs.optimizers import STEP, OptimizerPair, all_optimizers, pair_of_optimizer
from port.weights.tensors import Checkpoint
from port.weights.torch_files import read_saved

if TYPE_CHECKING:
    import torch

PLACES = ("optimizer", "optimizer_state_dict", "optimizer_state", "optimizer_states", "optim", "opt")
"""The usual keys of an optimizer's state dict in a training checkpoint."""
_NO_DEFAULT = inspect.Parameter.empty
STEPS = ("step", "global_step", "iteration", "num_updates")


@dataclass(frozen=True)
class SavedOptimizer:
    """The optimizer of a training checkpoint.

    Attributes:
        optimizer: with its groups and state; its parameters have the model's names and shapes, and no values.
        place: its key in the checkpoint.
        step: the number of updates at the checkpoint: from the file, else from the optimizer's count; 0 if neither
            has it.
        content: the file's whole contents.
        frozen: names of its parameters that the model does not train (``requires_grad=False``).
        never_stepped: names of those that the model trains, but no update has reached so far.
    """

    optimizer: torch.optim.Optimizer
    place: str
    step: int
    content: Saved[str, Any]
    frozen: tuple[str, ...] = ()
    never_stepped: tuple[str, ...] = ()


def read_optimizer(
    source: Path | str | Checkpoint, optimizer: Any, model: torch.nn.Module, *, key: str | None = None
) -> SavedOptimizer:
    """Read the optimizer of a training checkpoint.

    If it was made without names, of all the model's parameters or of all that require a gradient, they are assumed to
    be in the model's order, as in ``SGD(model.parameters())``.

    Parameters that the model freezes, and those without state where others have one, which no update has ever reached,
    require no gradient in the returned optimizer: the next update does not change them, as in torch.

    Args:
        source: what ``torch.save`` wrote: its path, or the open file. It is never unpickled beyond tensors.
        optimizer: its class, from torch.optim or of a registered pair.
        model: the module that it trains, on the meta device too: it defines which parameters there are.
        key: the key of the optimizer's state dict in the checkpoint, if it has several.

    Raises:
        BrokenWeights: the file cannot be read, or has no optimizer; a part of it is invalid.
        UsageError: a class that no pair covers; several optimizers in it; groups whose parameters cannot be
            identified.
        WeightsMismatch: the state is of another model, or of another class.
    """
    if not isinstance(optimizer, type):
        raise UsageError(f"the optimizer is chosen by its class, as torch.optim.AdamW; got {described(optimizer)}")
    pair = pair_of_optimizer(optimizer)
    if (reason := pair.refused(pair.defaults)) is not None:
        raise UsageError(reason)
    path = source.path if isinstance(source, Checkpoint) else Path(source)
    opened = source.content if isinstance(source, Checkpoint) else None
    content = opened() if opened is not None else read_saved(path)
    place, saved = _find(path, content, key)
    where = f"{path}: {place}" if place else str(path)
    check_form(where, saved)
    names = _names(path, saved, model)
    parameters = dict(model.named_parameters())
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    _check_class(where, saved, pair)
    _check_state(where, saved, names, shapes, pair)
    made = _made(where, saved, optimizer, pair, names, shapes)
    check_options(where, pair, made.param_groups)
    still = freeze(made, names, [name for name, parameter in parameters.items() if not parameter.requires_grad])
    return SavedOptimizer(made, place, _step(path, content, made), content, *still)


def _made(
    where: str,
    saved: Saved[str, Any],
    optimizer: Any,
    pair: OptimizerPair,
    names: list[list[str]],
    shapes: dict[str, tuple[int, ...]],
) -> torch.optim.Optimizer:
    parameters = [
        [
            (name, _parameter(shapes[name], _moments(saved["state"].get(index, {}))))
            for index, name in zip(group["params"], named, strict=True)
        ]
        for group, named in zip(saved["param_groups"], names, strict=True)
    ]
    groups = [{**group, "param_names": named} for group, named in zip(saved["param_groups"], names, strict=True)]
    try:
        made: torch.optim.Optimizer = optimizer([{"params": named} for named in parameters], **_needed(optimizer, pair))
        made.load_state_dict({"state": saved["state"], "param_groups": groups})
    except Exception as error:  # whatever torch raises for the rest, as Muon does for a vector
        raise BrokenWeights(f"{where}: no {pair.torch} can be made of it: {type(error).__name__}: {error}") from error
    return made


def _needed(optimizer: Any, pair: OptimizerPair) -> dict[str, Any]:
    """Arguments that the class requires to make an optimizer; the groups' own values override them."""
    taken = inspect.signature(optimizer).parameters
    needed = {name for name, parameter in taken.items() if parameter.default is _NO_DEFAULT}
    return {name: value for name, value in pair.defaults.items() if name in needed}


def _step(path: Path, content: Saved[str, Any], made: torch.optim.Optimizer) -> int:
    """The number of updates: from the file, else from the optimizer's count."""
    for name in STEPS:
        if isinstance(step := content.get(name), int):
            if not 0 <= step <= LARGEST:
                raise BrokenWeights(f"{path}: {name} must be a number of updates, got {shown(step)}")
            return step
    return next((int(state[STEP]) for state in made.state.values() if STEP in state), 0)


def _parameter(shape: tuple[int, ...], moments: list[torch.Tensor]) -> torch.nn.Parameter:
    """A parameter without values, in the dtype of its moments: torch casts them to it."""
    import torch

    return torch.nn.Parameter(torch.empty(shape, dtype=moments[0].dtype if moments else None))


def _moments(state: Saved[str, Any]) -> list[torch.Tensor]:
    """The tensors of a parameter's state, without its numbers."""
    numbers = {STEP}.union(*(pair.scalars for pair in all_optimizers()))
    return [value for key, value in state.items() if key not in numbers and is_floating(value)]


def _find(path: Path, content: Any, key: str | None) -> tuple[str, Saved[str, Any]]:
    if not isinstance(content, Saved):
        raise BrokenWeights(f"{path} holds a {type(content).__name__}, not a training checkpoint")
    if key is not None:
        if not _is_optimizer(content.get(key)):
            raise UsageError(f"{path} has no optimizer's state dict at {key!r}; it has {', '.join(map(str, content))}")
        return key, content[key]
    if _is_optimizer(content):
        return "", content
    found = [place for place in content if _is_optimizer(content[place])]
    known = [place for place in found if place in PLACES]
    if len(known or found) == 1:
        (place,) = known or found
        return str(place), content[place]
    if not found:
        raise BrokenWeights(
            f"{path} has no optimizer's state dict (of {', '.join(map(str, content))}); "
            "save it with the model: torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, …)"
        )
    raise UsageError(f"{path} has several optimizers: choose one: {', '.join(map(str, found))}")


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, Saved) and {"state", "param_groups"} <= set(value)


def _names(path: Path, saved: Saved[str, Any], model: torch.nn.Module) -> list[list[str]]:
    """The parameters' names, group by group: as saved, or in the model's order, or by the shapes of their state.

    In the model's order means all of its parameters, or all that it trains.
    """
    groups = saved["param_groups"]
    known = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if all("param_names" in group for group in groups):
        names = [list(group["param_names"]) for group in groups]
        if strange := sorted({name for group in names for name in group} - set(known)):
            raise WeightsMismatch(f"{path}: the optimizer trains {', '.join(strange)}, which the model does not have")
        return names
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for own in (list(known), trained):
        if len(groups) == 1 and len(groups[0]["params"]) == len(own):
            return [own]
    return names_of(_stand_in(path, saved), known)


def _stand_in(path: Path, saved: Saved[str, Any]) -> Any:
    """Parameters with the shapes of their state, for finding their names."""
    import torch

    groups = []
    for number, group in enumerate(saved["param_groups"]):
        parameters = []
        for index in group["params"]:
            shapes = [moment.shape for moment in _moments(saved["state"].get(index, {}))]
            if not shapes:
                raise UsageError(
                    f"{path}: parameter number {index} of the optimizer's group {number} cannot be identified; save "
                    "it with names: torch.optim.SGD(model.named_parameters(), …)"
                )
            try:
                shape = np.broadcast_shapes(*shapes)  # Adafactor's rows and columns
            except ValueError as error:
                listed = ", ".join(str(tuple(shape)) for shape in shapes)
                raise BrokenWeights(f"{path}: the optimizer's state of number {index} has shapes {listed}") from error
            parameters.append(torch.empty(shape, device="meta"))
        groups.append({"params": parameters})
    return type("StandIn", (), {"param_groups": groups})()


def _check_class(where: str, saved: Saved[str, Any], pair: OptimizerPair) -> None:
    """Check the class: Adam's and AdamW's states are alike, torch loads either into either; only the groups differ."""
    for place, group in enumerate(saved["param_groups"]):
        if (reason := pair.foreign(group)) is not None:
            raise WeightsMismatch(f"{where}: param_groups[{place}] {reason}")


def _check_state(
    where: str,
    saved: Saved[str, Any],
    names: list[list[str]],
    shapes: dict[str, tuple[int, ...]],
    pair: OptimizerPair,
) -> None:
    known = pair.keys | {STEP}
    size = sum(math.prod(shapes[name]) for named in names for name in named)
    for group, named in zip(saved["param_groups"], names, strict=True):
        if len(group["params"]) != len(named):
            raise WeightsMismatch(
                f"{where}: the optimizer has {len(group['params'])} parameters, the model {len(named)}"
            )
        for index, name in zip(group["params"], named, strict=True):
            state, place = saved["state"].get(index, {}), f"{where}: state[{index}], of {name}"
            if pair.closure:
                check_memory(place, state, size)
                continue
            if strange := sorted(set(state) - known):
                raise WeightsMismatch(
                    f"{where}: the optimizer's state of {name} holds {', '.join(strange)}, and {pair.torch} keeps "
                    f"{', '.join(sorted(known))}: it is the state of another class"
                )
            check_values(place, pair, state)
            for key in sorted(set(state) - pair.scalars - {STEP}):
                if not pair.in_torch_layout and state[key] is not None and tuple(state[key].shape) != shapes[name]:
                    raise WeightsMismatch(
                        f"{where}: the optimizer's {key} of {name} has shape {tuple(state[key].shape)}, the model's "
                        f"parameter {shapes[name]}: it is the state of another model"
                    )
