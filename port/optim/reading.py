"""Reads a torch optimizer: groups of parameters by name, their options, their state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError
from port.optim.memory import as_numbers
from port.optim.naming import Names
from port.pairs.optimizers import STEP, OptimizerPair, Options, pair_of_optimizer

if TYPE_CHECKING:
    import torch

FROZEN = "frozen"
"""The label of parameters that are not trained."""

_COMPLEX = (
    "{name} is complex, and {optimizer} steps its real and its imaginary part separately, with separate moments, "
    "which optax does not. Keep the parts as one real parameter (torch.view_as_real) on both sides, and make it "
    "complex where it is used; torch.optim.SGD and ASGD step complex numbers in the same way on both"
)


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are stepped alike: of one torch group, and stepped equally often.

    Attributes:
        pair: the optimizer's pair.
        optimizer: its position, if there are several optimizers.
        index: the group's position in it.
        options: its options, as the pair names them.
        names: torch's names of the parameters.
        numbers: torch's key → the number stored for each of them: the count of steps, and the pair's scalars.
        arrays: torch's key → name → array: the moments. Empty if nothing was stepped yet.
        scalars: the dtype of the pair's scalars: torch's default, or what `load_state_dict` has cast it to.
        memory: LBFGS's memory of all of them together.
        sizes: name → number of elements.
    """

    pair: OptimizerPair
    optimizer: int
    index: int
    options: Options
    names: tuple[str, ...]
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    scalars: str = "float32"
    memory: dict[str, Any] | None = None
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """The number of updates."""
        return int(self.numbers.get(STEP, 0))


def read_groups(optimizer: torch.optim.Optimizer, names: Names, *, number: int = 0) -> list[ParameterGroup]:
    """Read the groups of a torch optimizer, without untrained parameters; groups that were stepped unequally are split.

    Args:
        optimizer: torch's optimizer.
        names: the names of its parameters, group by group.
        number: its position among the optimizers.

    Raises:
        UsageError: options that the pair does not support in optax, or does not know; a complex parameter whose parts
            torch steps separately.
    """
    pair = pair_of_optimizer(optimizer)
    _refuse_unknown_options(optimizer, pair)
    groups: list[ParameterGroup] = []
    for index, (group, named) in enumerate(zip(optimizer.param_groups, names, strict=True)):
        options = options_of(pair, group)
        if (reason := pair.refused(options)) is not None:
            raise UsageError(reason)
        alike: dict[tuple[Any, ...], ParameterGroup] = {}
        for tensor, name in zip(group["params"], named, strict=True):
            if not tensor.requires_grad:
                continue
            if tensor.is_complex() and not pair.complex_alike:
                raise UsageError(_COMPLEX.format(name=name, optimizer=pair.torch))
            state = optimizer.state.get(tensor, {})
            numbers, arrays = _state_of(state, pair)
            scalars = _scalars_of(state, pair)
            key = (scalars, *sorted(numbers.items()), *sorted(set(arrays) & set(pair.flags.values())))
            same = alike.setdefault(key, ParameterGroup(pair, number, index, options, (), numbers, scalars=scalars))
            alike[key] = replace(same, names=(*same.names, name), arrays=_with(same.arrays, name, arrays))
        groups += alike.values()
        if pair.closure:
            groups = [_remembering(optimizer, groups, named)]
    return groups


def _refuse_unknown_options(optimizer: torch.optim.Optimizer, pair: OptimizerPair) -> None:
    """Check that the pair knows all of the optimizer's options: it would ignore the others."""
    if strange := sorted(set(optimizer.defaults) - set(pair.defaults) - pair.ignored):
        raise UsageError(
            f"{pair.torch} has the option {' and '.join(strange)}, which its pair does not list: an option that "
            "changes an update belongs in the pair's defaults, another one in its ignored"
        )


def _remembering(optimizer: torch.optim.Optimizer, groups: list[ParameterGroup], names: list[str]) -> ParameterGroup:
    """LBFGS's only group with its memory, which torch stores under the first parameter."""
    tensors = optimizer.param_groups[0]["params"]
    left_out = [name for tensor, name in zip(tensors, names, strict=True) if not tensor.requires_grad]
    if left_out:
        raise UsageError(
            f"torch.optim.LBFGS has {', '.join(left_out)}, which require no gradient but are part of its memory; "
            "make it with the parameters that are trained"
        )
    sizes = {name: tensor.numel() for name, tensor in zip(names, tensors, strict=True)}
    state = optimizer.state.get(tensors[0], {})
    return replace(groups[0], memory=as_numbers(state) if state else None, sizes=sizes)


def options_of(pair: OptimizerPair, group: dict[str, Any]) -> dict[str, Any]:
    """A group's options as plain numbers: torch accepts tensors for the learning rate and the betas, too."""
    options = {name: _plain(group.get(name, default)) for name, default in pair.defaults.items()}
    if pair.rate_in_its_dtype and hasattr(group["lr"], "item") and options["lr"]:
        # It computes 1 − lr · decay in the tensor's float32, too.
        options["weight_decay"] = (1 - (1 - group["lr"] * options["weight_decay"]).item()) / options["lr"]
    return options


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return value.item() if hasattr(value, "item") else value


def _state_of(state: dict[str, Any], pair: OptimizerPair) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    from port.weights.torch_arrays import as_numpy

    keys = pair.keys | {STEP}
    present = {key: value for key, value in state.items() if key in keys and value is not None}
    alone = pair.scalars | {STEP}
    numbers = {key: float(value) for key, value in present.items() if key in alone}
    arrays = {key: as_numpy(value.detach()) for key, value in present.items() if key not in alone}
    return numbers, arrays


def _scalars_of(state: dict[str, Any], pair: OptimizerPair) -> str:
    """The dtype that a parameter's scalars are rounded to: `load_state_dict` casts them to the parameter's."""
    from port.weights.torch_arrays import numpy_dtype

    kept = [numpy_dtype(state[key].dtype) for key in sorted(pair.scalars) if hasattr(state.get(key), "dtype")]
    rounded = [np.dtype(scalar_dtype())] if pair.scalars_anew or not kept else []
    return min([*kept, *rounded], key=lambda dtype: dtype.itemsize).name


def _with(
    known: dict[str, dict[str, np.ndarray]], name: str, arrays: dict[str, np.ndarray]
) -> dict[str, dict[str, np.ndarray]]:
    return {
        key: {**known.get(key, {}), **({name: arrays[key]} if key in arrays else {})} for key in {**known, **arrays}
    }


def labels_of(groups: list[ParameterGroup], trainable: Collection[str]) -> dict[str, str]:
    """Each parameter's label, under torch's names: its group's number, or `FROZEN` if it is in none."""
    labels = dict.fromkeys(trainable, FROZEN)
    for label, group in named_groups(groups).items():
        labels |= dict.fromkeys(group.names, label)
    return labels


def named_groups(groups: list[ParameterGroup]) -> dict[str, ParameterGroup]:
    """The groups by label; the label of a torch group that was split says how often each part was stepped."""
    several = len({group.optimizer for group in groups}) > 1
    places = [(group.optimizer, group.index) for group in groups]
    labels: dict[str, ParameterGroup] = {}
    for group, place in zip(groups, places, strict=True):
        label = f"{group.pair.name} group {group.index}" if several else f"group {group.index}"
        if places.count(place) > 1:
            label += f" after {group.step} steps"
        while label in labels:
            label += "'"
        labels[label] = group
    return labels


def scalar_dtype() -> str:
    """The dtype in which torch stores a parameter's numbers: its default dtype, whatever the parameter's is."""
    import torch

    return "float64" if torch.get_default_dtype() == torch.float64 else "float32"
