"""Which parameter of the model each parameter of a torch optimizer is: an optimizer holds tensors, not names."""

from __future__ import annotations

from collections.abc import Mapping as Named
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, WeightsMismatch

if TYPE_CHECKING:
    import torch

Names = list[list[str]]
Shape = tuple[int, ...]
Candidates = dict[tuple[int, int], list[str]]
WHAT_TO_DO = (
    "give the torch module (model=…), or make the optimizer with names: torch.optim.SGD(model.named_parameters(), …)"
)


def names_of(
    optimizer: torch.optim.Optimizer,
    shapes: Named[str, Shape],
    *,
    model: torch.nn.Module | None = None,
    values: Named[str, np.ndarray] | None = None,
) -> Names:
    """The names of an optimizer's parameters, group by group.

    Args:
        optimizer: torch's.
        shapes: the model's trainable parameters under torch's names, in the order in which they are registered.
        model: the module whose parameters they are, if it is at hand.
        values: what the parameters hold, if that is known: where the optimizer itself knows no names, a parameter is
            recognized by its value, then by the order of registration.

    Raises:
        WeightsMismatch: parameters that the model does not have, or that have another shape there.
        UsageError: two readings remain.
    """
    groups = [group["params"] for group in optimizer.param_groups]
    if model is not None:
        names = _by_identity(groups, model)
    elif all("param_names" in group for group in optimizer.param_groups):
        names = [list(group["param_names"]) for group in optimizer.param_groups]
    else:
        return _Matching(groups, shapes, values).names()
    for group, (tensors, named) in enumerate(zip(groups, names, strict=True)):
        for place, (tensor, name) in enumerate(zip(tensors, named, strict=True)):
            if name not in shapes:
                raise WeightsMismatch(
                    f"the optimizer's parameter {place} of group {group} is {name}, which the mapping does not know: "
                    "it is an optimizer of another model"
                )
            if tuple(tensor.shape) != shapes[name]:
                raise WeightsMismatch(
                    f"{name} is {tuple(tensor.shape)} in the optimizer and {shapes[name]} in the model: "
                    "it is an optimizer of another model"
                )
    return names


def _by_identity(groups: list[list[torch.Tensor]], model: torch.nn.Module) -> Names:
    from port.mapping.torch_guide import unwrapped

    known = {id(parameter): name for name, parameter in unwrapped(model).named_parameters()}
    names: Names = []
    for group, tensors in enumerate(groups):
        for place, tensor in enumerate(tensors):
            if id(tensor) not in known:
                raise WeightsMismatch(
                    f"parameter {place} of the optimizer's group {group}, shape {tuple(tensor.shape)}, is none of the "
                    "model's: it is an optimizer of another model, or of this one before it was moved or copied"
                )
        names.append([known[id(tensor)] for tensor in tensors])
    return names


class _Matching:
    """Names by value and shape, and among equal ones by the order of registration."""

    def __init__(
        self, groups: list[list[torch.Tensor]], shapes: Named[str, Shape], values: Named[str, np.ndarray] | None
    ) -> None:
        self.groups, self.shapes = groups, shapes
        self.order = {name: place for place, name in enumerate(shapes)}
        self.places = [(group, place) for group, tensors in enumerate(groups) for place in range(len(tensors))]
        by_value = self._of_value(values) if values is not None else None
        # Where one side was trained further, the values say nothing.
        self.candidates = by_value or {at: self._of_shape(at) for at in self.places}

    def names(self) -> Names:
        candidates = self.candidates
        self._refuse_strangers(candidates)
        changed = True
        while changed:
            changed = self._without_taken(candidates) | self._within_order(candidates)
        self._refuse_doubts(candidates)
        return [[candidates[group, place][0] for place in range(len(t))] for group, t in enumerate(self.groups)]

    def _of_shape(self, at: tuple[int, int]) -> list[str]:
        shape = tuple(self.groups[at[0]][at[1]].shape)
        return [name for name, other in self.shapes.items() if other == shape]

    def _of_value(self, values: Named[str, np.ndarray]) -> Candidates | None:
        """By value; None if any parameter has a value that the model has not."""
        from port.weights.torch import as_numpy

        found = {}
        for at in self.places:
            value = as_numpy(self.groups[at[0]][at[1]].detach())
            found[at] = [name for name in self._of_shape(at) if _alike(value, values[name])]
            if not found[at]:
                return None
        return found

    def _refuse_strangers(self, candidates: Candidates) -> None:
        for (group, place), names in candidates.items():
            if not names:
                shape = tuple(self.groups[group][place].shape)
                raise WeightsMismatch(
                    f"parameter {place} of the optimizer's group {group} has shape {shape}, and the model has no "
                    "parameter like it: it is an optimizer of another model"
                )
        if len(self.places) > len(self.shapes):
            raise WeightsMismatch(
                f"the optimizer has {len(self.places)} parameters and the model {len(self.shapes)}: "
                "it is an optimizer of another model"
            )

    def _without_taken(self, candidates: Candidates) -> bool:
        """What one parameter surely is, no other one is."""
        taken = {names[0] for names in candidates.values() if len(names) == 1}
        changed = False
        for at, names in candidates.items():
            left = [name for name in names if name not in taken]
            if len(names) > 1 and len(left) < len(names) and left:
                candidates[at], changed = left, True
        return changed

    def _within_order(self, candidates: Candidates) -> bool:
        """A group that keeps the order of registration keeps it everywhere."""
        changed = False
        for group, tensors in enumerate(self.groups):
            if not self._keeps_order(group, candidates):
                continue
            lowest = -1
            for place in range(len(tensors)):
                changed |= self._bounded(candidates, (group, place), lambda order, low=lowest: order > low)
                lowest = min(self.order[name] for name in candidates[group, place])
            highest = len(self.order)
            for place in reversed(range(len(tensors))):
                changed |= self._bounded(candidates, (group, place), lambda order, high=highest: order < high)
                highest = max(self.order[name] for name in candidates[group, place])
        return changed

    def _bounded(self, candidates: Candidates, at: tuple[int, int], within: Any) -> bool:
        left = [name for name in candidates[at] if within(self.order[name])]
        changed = bool(left) and len(left) < len(candidates[at])
        if changed:
            candidates[at] = left
        return changed

    def _keeps_order(self, group: int, candidates: Candidates) -> bool:
        sure = [
            self.order[candidates[group, place][0]]
            for place in range(len(self.groups[group]))
            if len(candidates[group, place]) == 1
        ]
        return sure == sorted(sure)

    def _refuse_doubts(self, candidates: Candidates) -> None:
        for (group, place), names in candidates.items():
            if len(names) > 1:
                shape = tuple(self.groups[group][place].shape)
                raise UsageError(
                    f"parameter {place} of the optimizer's group {group}, shape {shape}, may be any of "
                    f"{', '.join(names)}; {WHAT_TO_DO}"
                )


def _alike(value: np.ndarray, other: np.ndarray) -> bool:
    """The same numbers, but for the rounding of a narrower dtype."""
    if np.array_equal(value, other):
        return True
    precision = max(_precision(value), _precision(other))
    return bool(np.all(np.abs(value.astype(np.float64) - other.astype(np.float64)) <= precision * np.abs(value)))


def _precision(array: np.ndarray) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(array.dtype).eps)
