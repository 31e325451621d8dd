"""`port.load_optimizer`: loads an optax state into a torch optimizer, which continues where JAX stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.mapping import Mapping
from port.optim.from_torch import resolved_names, schedulers_of, several
from port.optim.held import TorchNamedState, held_by, stepped_groups
from port.optim.memory import in_order
from port.optim.parts import Partition
from port.optim.placing import Placement, placement_of
from port.optim.reading import ParameterGroup, named_groups, read_groups, scalar_dtype
from port.optim.together import WithPlateau
from port.pairs.optimizers import STEP
from port.transforms.lbfgs_state import lbfgs_state_to_torch

if TYPE_CHECKING:
    import torch

    from port.optim.from_torch import Optimizers, Scheduler, Schedulers

    Tensors = dict[str, torch.Tensor]


def load_optimizer(
    optimizer: Optimizers,
    opt_state: Any,
    *,
    mapping: Mapping,
    params: Any = None,
    scheduler: Schedulers = None,
    model: torch.nn.Module | None = None,
    steps_per_epoch: int | None = None,
    step: int | None = None,
) -> None:
    """Fill a torch optimizer with an optax state.

    Each parameter gets what the state has under its path, whatever the labels of the state's partitions are: torch
    may have stepped its parameters unequally since. What is frozen on either side keeps its state in torch, usually
    none. Everything is checked first: after an error the optimizer and its scheduler are unchanged. Adam's and Adamax's
    states look alike in optax, so one passed for the other is not noticed. A gradient that
    `port.transforms.accumulate_torch` has accumulated partly is not converted.

    Args:
        optimizer: torch's optimizer, of the same class and groups as the one that the transformation was made from; or
            several.
        opt_state: the state of a transformation made by `to_optax` (or an equivalent one).
        mapping: from torch's names to the Flax parameters' paths.
        params: the Flax parameters, if the optimizer's are to be identified by value; see `to_optax`.
        scheduler: torch's scheduler of this optimizer, or several; see `to_optax`. It is set to the schedule's
            position, and the optimizer's rate with it; without it, torch's rate is not changed, and must be set with
            the scheduler's own ``load_state_dict``. A ReduceLROnPlateau must be passed if the state has one: its rate
            is nowhere else. Its count of metrics, ``last_epoch``, which torch does not use, is not in the state and is
            not changed; neither is the rate of a group that is not trained.
        model: the torch module that the optimizer trains; see `to_optax`.
        steps_per_epoch: updates between two steps of the scheduler.
        step: the number of updates, for optimizers whose optax state does not count them (RMSprop, Adadelta with a
            constant rate); torch counts them, and does not use the count.

    Raises:
        UsageError: an optimizer without a counterpart; parameters that cannot be identified; a scheduler that is not in
            the state, or cannot be set to its position; a ReduceLROnPlateau that is missing.
        WeightsMismatch: a state of another optimizer, of other options, or of another model.
    """
    optimizers, schedulers = several(optimizer), schedulers_of(optimizer, scheduler)
    groups: list[ParameterGroup] = []
    tensors: Tensors = {}
    for number, one in enumerate(optimizers):
        names = resolved_names(one, mapping, params, model)
        groups += read_groups(one, names, number=number)
        for torchs, named in zip(one.param_groups, names, strict=True):
            tensors |= zip(named, torchs["params"], strict=True)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    held = held_by(opt_state, groups, shapes, mapping)
    groups = stepped_groups(held, groups, shapes, mapping)

    states = [
        (optimizers[group.optimizer], tensor, state)
        for group in groups
        for tensor, state in _states(held, group, tensors, optimizers[group.optimizer], step)
    ]
    placements = [
        _placement(held, groups, number, one, steps_per_epoch)
        for number, one in enumerate(schedulers)
        # With a scheduler that only reads the initial rate, its schedule is not in the optax state.
        if not any(group.pair.takes_first_rate for group in groups if group.optimizer == number)
    ]
    for placement in placements:
        placement.check()

    for filled, tensor, state in states:
        if state:
            filled.state[tensor] = state
        else:
            filled.state.pop(tensor, None)
    for placement in placements:
        placement.make()


def _placement(
    held: TorchNamedState,
    groups: list[ParameterGroup],
    number: int,
    scheduler: Scheduler | WithPlateau | None,
    steps_per_epoch: int | None,
) -> Placement:
    """The position for the scheduler of one of the optimizers."""
    own: dict[int, list[Partition]] = {}
    for label, group in named_groups(groups).items():
        if group.optimizer == number:
            own.setdefault(group.index, []).extend(held.parts_of(label, group))
    return placement_of(scheduler, own, steps_per_epoch)


def _states(
    held: TorchNamedState, group: ParameterGroup, tensors: Tensors, optimizer: torch.optim.Optimizer, step: int | None
) -> list[tuple[torch.Tensor, dict[str, Any]]]:
    """The parameters of a group, each with its state."""
    if group.pair.closure:
        first = optimizer.param_groups[0]["params"][0]
        return [(first, _memory(held, group, first))]
    found = []
    for name in group.names:
        before = float(optimizer.state.get(tensors[name], {}).get(STEP, 0))
        counted = step if step is not None else held.place(name) or before
        found.append((tensors[name], _state(held, group, name, tensors[name], counted)))
    return found


def _state(
    held: TorchNamedState, group: ParameterGroup, name: str, tensor: torch.Tensor, counted: float
) -> dict[str, Any]:
    """One parameter's state, as torch would store it; empty if torch has none before the first step."""
    import torch

    from port.weights.torch_arrays import as_torch

    pair, fields = group.pair, held.fields(name)
    absent = {
        pair.flags[field] for kept in fields for field, value in kept.items() if field in pair.flags and not bool(value)
    }
    number = getattr(torch, scalar_dtype())
    state: dict[str, Any] = {}
    for key, value in held.by_key(pair, name):
        if key == STEP or key in pair.scalars:
            state[key] = torch.tensor(np.asarray(value).item(), dtype=number)
        elif key in pair.keys - absent:
            state[key] = as_torch(np.array(value)).to(tensor)
    if pair.counts and STEP not in state:
        state[STEP] = torch.tensor(float(counted), dtype=number)
    if pair.whole_count:
        state[STEP] = int(state[STEP])
    return state


def _memory(held: TorchNamedState, group: ParameterGroup, first: torch.Tensor) -> dict[str, Any]:
    """LBFGS's entry as torch stores it."""
    from port.weights.torch_arrays import as_torch

    def tensors(value: Any) -> Any:
        if isinstance(value, list):
            return [tensors(item) for item in value]
        return as_torch(np.array(value)).to(first) if isinstance(value, np.ndarray) else value

    (memory,) = (lbfgs_state_to_torch(state) for part in held.parts for state in part.lbfgs)
    own = in_order(memory, {name: group.sizes[name] for name in sorted(group.sizes)}, list(group.sizes))
    return {key: tensors(value) for key, value in own.items()}
