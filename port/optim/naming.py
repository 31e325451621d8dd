"""Identifies the model parameters in a torch optimizer, which holds tensors, not names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as Named
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, WeightsMismatch
from port.mapping.torch_guide import unwrapped

if TYPE_CHECKING:
    import torch

Names = list[list[str]]
Shape = tuple[int, ...]
Place = tuple[int, int]
Candidates = dict[Place, list[str]]
WHAT_TO_DO = (
    "pass the torch module (model=…), or make the optimizer with names: torch.optim.SGD(model.named_parameters(), …)"
)


def names_of(
    optimizer: torch.optim.Optimizer,
    shapes: Named[str, Shape],
    *,
    model: torch.nn.Module | None = None,
    values: Named[str, np.ndarray] | None = None,
) -> Names:
    """Find the names of an optimizer's parameters, group by group.

    What is certain comes first: the module itself, and names in the optimizer. Without them a parameter is identified
    by its value; otherwise by its shape, and among parameters of one shape a group is assumed to have them in the
    model's order, as in ``SGD(model.parameters())``. Without ``values`` nothing can contradict that: an optimizer made
    of ``[b.weight, a.weight]``, of one shape, is then read in the wrong order.

    Args:
        optimizer: torch's optimizer.
        shapes: the model's trainable parameters under torch's names, in the order in which they are registered.
        model: the module with these parameters, if available. Its values are not read: they may be of another step than
            ``values``.
        values: the parameters' values, if known; not of frozen ones that the Flax parameters lack.

    Raises:
        WeightsMismatch: parameters that the model does not have, or that have another shape there.
        UsageError: two readings remain; or the values contradict the order.
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
                    f"the optimizer's parameter {place} of group {group} is {name}, which is not in the mapping: "
                    "it is an optimizer of another model"
                )
            if tuple(tensor.shape) != shapes[name]:
                raise WeightsMismatch(
                    f"{name} is {tuple(tensor.shape)} in the optimizer and {shapes[name]} in the model: "
                    "it is an optimizer of another model"
                )
    return names


def _by_identity(groups: list[list[torch.Tensor]], model: torch.nn.Module) -> Names:
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
    """Matches parameters by value and shape, and equal ones by the order of registration."""

    def __init__(
        self, groups: list[list[torch.Tensor]], shapes: Named[str, Shape], values: Named[str, np.ndarray] | None
    ) -> None:
        self.groups, self.shapes, self.values = groups, shapes, values or {}
        self.order = {name: place for place, name in enumerate(shapes)}
        self.places = [(group, place) for group, tensors in enumerate(groups) for place in range(len(tensors))]
        self.candidates: Candidates = {at: self._of_shape(at) for at in self.places}
        self.equal = self._of_value() if values is not None else {}

    def names(self) -> Names:
        candidates = self.candidates
        self._refuse_strangers(candidates)
        candidates |= self.equal
        changed = True
        while changed:
            changed = self._without_taken(candidates) | self._within_order(candidates)
        self._refuse_doubts(candidates)
        found = {at: names[0] for at, names in candidates.items()}
        if self.values:
            self._refuse_contradiction(found)
        return [[found[group, place] for place in range(len(t))] for group, t in enumerate(self.groups)]

    def _of_shape(self, at: Place) -> list[str]:
        shape = tuple(self.groups[at[0]][at[1]].shape)
        return [name for name, other in self.shapes.items() if other == shape]

    def _of_value(self) -> Candidates:
        """The parameters that are equal to the model's, and the names that they are equal to."""
        equal = {
            at: [n for n in names if n in self.values and _alike(self._value(at), self.values[n])]
            for at, names in self.candidates.items()
        }
        claims = Counter(map(tuple, equal.values()))
        # Fresh scales are all ones: equality with an untouched one of the model does not identify a parameter.
        return {at: names for at, names in equal.items() if 0 < claims[tuple(names)] <= len(names)}

    def _value(self, at: Place) -> np.ndarray:
        from port.weights.torch_arrays import as_numpy

        return as_numpy(self.groups[at[0]][at[1]].detach())

    def _refuse_strangers(self, candidates: Candidates) -> None:
        for (group, place), names in candidates.items():
            if not names:
                shape = tuple(self.groups[group][place].shape)
                raise WeightsMismatch(
                    f"parameter {place} of the optimizer's group {group} has shape {shape}, and the model has no "
                    "such parameter: it is an optimizer of another model"
                )
        if len(self.places) > len(self.shapes):
            raise WeightsMismatch(
                f"the optimizer has {len(self.places)} parameters and the model {len(self.shapes)}: "
                "it is an optimizer of another model"
            )

    def _without_taken(self, candidates: Candidates) -> bool:
        """A name that one parameter certainly has is no other's; likewise for several parameters and as many names."""
        claims = Counter(map(tuple, candidates.values()))
        taken = {name: names for names, count in claims.items() if count >= len(names) for name in names}
        changed = False
        for at, names in candidates.items():
            left = [name for name in names if taken.get(name, tuple(names)) == tuple(names)]
            if left and len(left) < len(names):
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

    def _bounded(self, candidates: Candidates, at: Place, within: Any) -> bool:
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

    def _refuse_contradiction(self, found: dict[Place, str]) -> None:
        """Raise if a parameter's value is far nearer to another parameter's of the same shape than to its name's."""
        owners = {name: at for at, name in found.items()}
        for at, name in found.items():
            if at in self.equal or name not in self.values:
                continue
            for other in self._of_shape(at):
                if other != name and other in self.values and self._is_nearer(at, name, other, owners.get(other)):
                    raise UsageError(
                        f"parameter {at[1]} of the optimizer's group {at[0]} is {name} by the model's order, and its "
                        f"value is nearer to that of {other}: the optimizer has them in another order, or the values "
                        f"are of another run; {WHAT_TO_DO}"
                    )

    def _is_nearer(self, at: Place, name: str, other: str, owner: Place | None) -> bool:
        """Whether the values clearly fit better when a parameter exchanges names with another one."""
        kept = [(at, name), *([] if owner is None else [(owner, other)])]
        changed = [(at, other), *([] if owner is None else [(owner, name)])]
        # Twice as near, as values of one run are; those of two runs are about equally far from all the others.
        return 2 * self._distance(changed) < self._distance(kept)

    def _distance(self, named: list[tuple[Place, str]]) -> float:
        """The distance from parameters to the values of their names; ignored if not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            parts = [np.linalg.norm(_wide(self._value(at)) - _wide(self.values[name])) for at, name in named]
        return float(np.linalg.norm(parts))


def _alike(value: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same numbers, up to the rounding of a narrower dtype."""
    if np.array_equal(value, other):
        return True
    precision = max(_precision(value), _precision(other))
    return bool(np.all(np.abs(_wide(value) - _wide(other)) <= precision * np.abs(value)))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _precision(array: np.ndarray) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(array.dtype).eps)
