"""`port.load_optimizer`: an optax state into a torch optimizer, which goes on where JAX stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, WeightsMismatch
from port.mapping import Mapping
from port.optim.assembling import Around, assemble
from port.optim.from_torch import resolved_names, schedulers_of, several
from port.optim.layout import trained_entries
from port.optim.memory import in_order
from port.optim.reading import Group, read_groups, scalar_dtype
from port.optim.state import Contents, contents_of
from port.pairs.optimizers import STEP
from port.pairs.schedules import place, place_plateau
from port.transforms.paths import path_of

if TYPE_CHECKING:
    import torch

    from port.optim.from_torch import Optimizers, Schedulers

Arrays = dict[str, np.ndarray]


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

    Args:
        optimizer: torch's, of the same class and groups as the one that the transformation was made from; or several.
        opt_state: the state of a transformation made by `to_optax` (or written alike).
        mapping: from torch's names to the Flax parameters' paths.
        params: the Flax parameters, where the optimizer's are to be recognized by value; see `to_optax`.
        scheduler: torch's scheduler of this optimizer: it is set to where the schedule stands.
        model: the torch module that the optimizer trains; see `to_optax`.
        steps_per_epoch: updates between two steps of the scheduler.
        step: how many updates there were, for optimizers whose optax state does not count them (RMSprop, Adadelta with
            a constant rate); torch counts them, and does not use the count.

    Raises:
        UsageError: an optimizer that has no counterpart; parameters that cannot be told apart.
        WeightsMismatch: a state of another optimizer or model. The optimizer is then as it was.
    """
    optimizers, schedulers = several(optimizer), schedulers_of(optimizer, scheduler)
    groups: list[Group] = []
    tensors: dict[str, torch.Tensor] = {}
    for number, one in enumerate(optimizers):
        names = resolved_names(one, mapping, params, model)
        groups += read_groups(one, names, number=number)
        for group, named in zip(one.param_groups, names, strict=True):
            tensors |= zip(named, group["params"], strict=True)
    assembly = assemble(groups, mapping, [None] * len(optimizers), Around())
    pairs = {label: group.pair for label, group in assembly.groups.items()}
    contents = contents_of(opt_state, pairs, prefix=_prefix(opt_state, mapping))
    states: list[tuple[torch.optim.Optimizer, str, dict[str, Any]]] = []
    for label, stepped in assembly.groups.items():
        held, one = contents[label], optimizers[stepped.optimizer]
        arrays = {
            key: found if assembly.in_torch_layout else _back(found, mapping) for key, found in held.arrays.items()
        }
        for name in stepped.names:
            before = float(one.state.get(tensors[name], {}).get(STEP, 0))
            counted = step if step is not None else held.place or before
            states.append((one, name, _state(name, tensors[name], held, arrays, counted)))
    for one, name, state in states:
        one.state[tensors[name]].update(state)
    for label, stepped in assembly.groups.items():
        if memory := contents[label].memory:
            first = optimizers[stepped.optimizer].param_groups[0]["params"][0]
            optimizers[stepped.optimizer].state[first].update(_memory(memory, stepped.sizes, first))
    for number, one_scheduler in enumerate(schedulers):
        places = {
            held.place
            for label, held in contents.items()
            if assembly.groups[label].optimizer == number and held.place is not None
        }
        if one_scheduler is None:
            continue
        held_rates = [
            held.rates for label, held in contents.items() if assembly.groups[label].optimizer == number and held.rates
        ]
        if held_rates:
            _place_plateau(one_scheduler, held_rates)
        if not places:
            continue
        if len(places) > 1:
            raise UsageError(f"the groups' schedules stand at different places: {sorted(places)}")
        place(one_scheduler, places.pop() // (steps_per_epoch or 1))


def _place_plateau(scheduler: Any, rates: list[dict[str, Any]]) -> None:
    """Set ReduceLROnPlateau, which has one count for all groups, and a rate of each, to where the state stands."""
    counts = {key: value for key, value in rates[0].items() if key != "learning_rate"}
    place_plateau(scheduler, [held["learning_rate"] for held in rates], **counts)


def _memory(memory: dict[str, Any], sizes: dict[str, int], first: torch.Tensor) -> dict[str, Any]:
    """LBFGS's entry as torch keeps it."""
    from port.weights.torch import as_torch

    def tensors(value: Any) -> Any:
        if isinstance(value, list):
            return [tensors(item) for item in value]
        return as_torch(np.array(value)).to(first) if isinstance(value, np.ndarray) else value

    own = in_order(memory, {name: sizes[name] for name in sorted(sizes)}, list(sizes))
    return {key: tensors(value) for key, value in own.items()}


def _prefix(state: Any, mapping: Mapping) -> str:
    """What stands before the parameters' paths in the moments."""
    import jax

    targets = {target for entry in trained_entries(mapping) for target in entry.targets}
    paths = [f".{path_of(keys)}" for keys, _ in jax.tree_util.tree_leaves_with_path(state)]
    return "params." if any(path.endswith(f".params.{target}") for path in paths for target in targets) else ""


def _back(found: Arrays, mapping: Mapping) -> Arrays:
    back: Arrays = {}
    for entry in trained_entries(mapping):
        if all(target in found for target in entry.targets):
            moved = entry.inverse()(tuple(found[target] for target in entry.targets))
            back |= zip(entry.sources, moved, strict=True)
    return back


def _state(
    name: str, tensor: torch.Tensor, held: Contents, arrays: dict[str, Arrays], counted: float
) -> dict[str, Any]:
    """One parameter's state, as torch itself would keep it."""
    import torch

    from port.weights.torch import as_torch

    state: dict[str, Any] = {}
    for key, named in arrays.items():
        if name not in named:
            continue
        array = named[name]
        if not held.pair.in_torch_layout and array.shape != tuple(tensor.shape):
            raise WeightsMismatch(
                f"{name}: the state's {key} has shape {array.shape}, the parameter {tuple(tensor.shape)}"
            )
        state[key] = as_torch(np.array(array)).to(tensor)
    if held.pair.counts:
        state[STEP] = torch.tensor(held.numbers.get(STEP, counted), dtype=getattr(torch, scalar_dtype()))
    for key in held.pair.scalars & set(held.numbers):
        state[key] = torch.tensor(held.numbers[key], dtype=getattr(torch, scalar_dtype()))
    return state
