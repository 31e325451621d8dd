"""The optimizer in a torch training checkpoint."""

from __future__ import annotations

from collections.abc import Mapping as Saved
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.optim.naming import names_of
from port.pairs.optimizers import STEP, pair_of_optimizer
from port.weights.torch_files import read_saved

if TYPE_CHECKING:
    import torch

PLACES = ("optimizer", "optimizer_state_dict", "optimizer_state", "optimizer_states", "optim", "opt")
"""Where training scripts put an optimizer's state dict in what they save."""
STEPS = ("step", "global_step", "iteration", "num_updates")


@dataclass(frozen=True)
class SavedOptimizer:
    """What a training checkpoint says of its optimizer.

    Attributes:
        optimizer: with its groups and state; its parameters have the model's names and shapes, and no values.
        place: where in the checkpoint it is.
        step: how many updates the checkpoint has behind it: as the file says, else as the optimizer has counted.
    """

    optimizer: torch.optim.Optimizer
    place: str
    step: int


def read_optimizer(
    path: Path | str, optimizer: Any, model: torch.nn.Module, *, key: str | None = None
) -> SavedOptimizer:
    """The optimizer of a training checkpoint.

    Args:
        path: what ``torch.save`` wrote. It is never unpickled beyond tensors.
        optimizer: its class, one of torch.optim's.
        model: the module that it trains, on the meta device too: it tells which parameters there are.
        key: where in the checkpoint the optimizer's state dict is, if it holds several.

    Raises:
        BrokenWeights: a file that cannot be read, or holds no optimizer.
        UsageError: several optimizers in it; groups whose parameters cannot be told apart.
        WeightsMismatch: the state of another model, or of another class.
    """
    path = Path(path)
    content = read_saved(path)
    place, saved = _find(path, content, key)
    names = _names(path, saved, model)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    _check_state(path, saved, names, shapes, optimizer)
    made: torch.optim.Optimizer = optimizer(
        [
            {
                **_options(group),
                "params": [
                    (name, _parameter(shapes[name], saved["state"].get(index, {})))
                    for index, name in zip(group["params"], named, strict=True)
                ],
            }
            for group, named in zip(saved["param_groups"], names, strict=True)
        ]
    )
    groups = [{**group, "param_names": named} for group, named in zip(saved["param_groups"], names, strict=True)]
    made.load_state_dict({"state": saved["state"], "param_groups": groups})
    told = [content[name] for name in STEPS if isinstance(content.get(name), int)]
    counted = [int(state[STEP]) for state in made.state.values() if STEP in state]
    return SavedOptimizer(made, place, int((told or counted or [0])[0]))


def _options(group: Saved[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def _parameter(shape: tuple[int, ...], state: Saved[str, Any]) -> torch.nn.Parameter:
    """A parameter without values, in the dtype of its moments: torch casts them to it."""
    import torch

    dtypes = [value.dtype for value in state.values() if _is_array(value)]
    return torch.nn.Parameter(torch.empty(shape, dtype=dtypes[0] if dtypes else None))


def _find(path: Path, content: Any, key: str | None) -> tuple[str, Saved[str, Any]]:
    if not isinstance(content, Saved):
        raise BrokenWeights(f"{path} holds a {type(content).__name__}, and no training checkpoint")
    if key is not None:
        if not _is_optimizer(content.get(key)):
            raise UsageError(f"{path} has no optimizer's state dict at {key!r}; it has {', '.join(map(str, content))}")
        return key, content[key]
    if _is_optimizer(content):
        return "", content
    found = [place for place in content if _is_optimizer(content[place])]
    known = [place for place in found if place in PLACES]
    if len(known or found) == 1:
        place = str((known or found)[0])
        return place, content[place]
    if not found:
        raise BrokenWeights(
            f"{path} holds no optimizer's state dict (of {', '.join(map(str, content))}); "
            "save it with the model: torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, …)"
        )
    raise UsageError(f"{path} holds several optimizers: say which: {', '.join(map(str, found))}")


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, Saved) and {"state", "param_groups"} <= set(value)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and bool(tuple(value.shape))


def _names(path: Path, saved: Saved[str, Any], model: torch.nn.Module) -> list[list[str]]:
    """The parameters' names, group by group: as saved, or in the model's order, or by the shapes of their state."""
    groups = saved["param_groups"]
    known = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if all("param_names" in group for group in groups):
        names = [list(group["param_names"]) for group in groups]
        if strange := sorted({name for group in names for name in group} - set(known)):
            raise WeightsMismatch(f"{path}: the optimizer trains {', '.join(strange)}, which the model does not have")
        return names
    if len(groups) == 1 and len(groups[0]["params"]) == len(known):
        return [list(known)]
    return names_of(_stand_in(path, saved), known)


def _stand_in(path: Path, saved: Saved[str, Any]) -> Any:
    """Parameters of the shapes that their state has, for finding their names."""
    import torch

    groups = []
    for number, group in enumerate(saved["param_groups"]):
        parameters = []
        for index in group["params"]:
            arrays = [value for value in saved["state"].get(index, {}).values() if _is_array(value)]
            if not arrays:
                raise UsageError(
                    f"{path}: nothing tells which parameter is number {index} of the optimizer's group {number}; save "
                    "it with names: torch.optim.SGD(model.named_parameters(), …)"
                )
            parameters.append(torch.empty(arrays[0].shape, device="meta"))
        groups.append({"params": parameters})
    return type("StandIn", (), {"param_groups": groups})()


def _check_state(
    path: Path, saved: Saved[str, Any], names: list[list[str]], shapes: dict[str, tuple[int, ...]], optimizer: type
) -> None:
    pair = pair_of_optimizer(optimizer)
    known = {key for fields in pair.state.values() for key in fields.values()} | {STEP}
    for group, named in zip(saved["param_groups"], names, strict=True):
        if len(group["params"]) != len(named):
            raise WeightsMismatch(
                f"{path}: the optimizer has {len(group['params'])} parameters, the model {len(named)}"
            )
        for index, name in zip(group["params"], named, strict=True):
            state = saved["state"].get(index, {})
            if not pair.closure and (strange := sorted(set(state) - known)):
                raise WeightsMismatch(
                    f"{path}: the optimizer's state of {name} holds {', '.join(strange)}, and {pair.torch} keeps "
                    f"{', '.join(sorted(known))}: it is the state of another class"
                )
            for key, value in state.items():
                if not pair.in_torch_layout and _is_array(value) and tuple(value.shape) != shapes[name]:
                    raise WeightsMismatch(
                        f"{path}: the optimizer's {key} of {name} has shape {tuple(value.shape)}, the model's "
                        f"parameter {shapes[name]}: it is the state of another model"
                    )
