"""What an optax state stores for each parameter: found by the parameters' paths, whatever the labels are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
import optax

from port.pairs.optimizers import all_optimizers
from port.transforms.lbfgs_state import TorchLbfgsState
from port.transforms.paths import path_of

Trees = dict[str, dict[str, Any]]
"""A field → the path of a parameter → its array."""

_ACCUMULATING = {"TorchAccumulationState", "MultiStepsState"}


@dataclass(frozen=True)
class OptaxState:
    """One optax state that belongs to an optimizer.

    Attributes:
        name: its class.
        trees: its fields with something for each parameter.
        numbers: its fields with one number for all of them.
    """

    name: str
    trees: Trees
    numbers: dict[str, Any]

    def of(self, path: str) -> dict[str, Any]:
        """A parameter's fields; empty if nothing is stored for it."""
        own = {name: tree[path] for name, tree in self.trees.items() if path in tree}
        return {**own, **self.numbers} if own else {}


@dataclass(frozen=True)
class Partition:
    """The states under one label of an `optax.partition`, or outside of all.

    Attributes:
        label: None outside of all.
        outer: the states around it.
        kept: the states of its optimizer.
        counts: the counts of its schedules: the updates that they have seen.
        plateau: the fields of its `port.transforms.TorchPlateauState`, without the optimizer's own state.
        lbfgs: LBFGS's memory.
    """

    label: str | None = None
    outer: Partition | None = None
    kept: list[OptaxState] = field(default_factory=list)
    counts: list[Any] = field(default_factory=list)
    plateau: dict[str, Any] = field(default_factory=dict)
    lbfgs: list[TorchLbfgsState] = field(default_factory=list)

    @property
    def paths(self) -> set[str]:
        """The parameters that it stores something for."""
        return {path for kept in self.kept for tree in kept.trees.values() for path in tree}

    @property
    def place(self) -> int | None:
        """How many updates its schedule has seen; None if it has none."""
        counts = [*self.counts, *(self.outer.counts if self.outer else ())]
        return max(map(int, counts), default=None)

    @property
    def rates(self) -> dict[str, float]:
        """The state of ReduceLROnPlateau, by field; empty if there is none."""
        plateau = self.plateau or (self.outer.plateau if self.outer else {})
        return {name: np.asarray(value).item() for name, value in plateau.items()}

    def renamed(self, rename: Callable[[dict[str, Any]], dict[str, Any]]) -> Partition:
        """Rename the parameters, and convert their arrays with them."""
        kept = [replace(one, trees={name: rename(tree) for name, tree in one.trees.items()}) for one in self.kept]
        return replace(self, kept=kept)


def parts_of(state: Any, paths: Collection[str]) -> list[Partition]:
    """Split an optax state into its partitions; one without `optax.partition` is a single part.

    An accumulator's gradients are not included: torch has them in the parameters' ``.grad``.

    Args:
        state: a whole transformation's state; arrays, or the shapes and dtypes from `jax.eval_shape`.
        paths: all possible names of a parameter in it.
    """
    parts = [Partition()]
    keeping = frozenset(name for pair in all_optimizers() for name in pair.state)
    _collect(state, parts[0], parts, paths, keeping)
    return parts


def _collect(
    state: Any, part: Partition, parts: list[Partition], paths: Collection[str], keeping: Collection[str]
) -> None:
    if isinstance(state, optax.PartitionState):
        for label, inner in state.inner_states.items():
            parts.append(Partition(str(label), part))
            _collect(inner, parts[-1], parts, paths, keeping)
        return
    if isinstance(state, TorchLbfgsState):
        part.lbfgs.append(state)
        return
    name = type(state).__name__
    fields: Mapping[str, Any] = state._asdict() if hasattr(state, "_asdict") else {}
    if name == "TorchPlateauState":
        part.plateau.update({key: value for key, value in fields.items() if key != "inner_state"})
    trees = {key: _by_path(value, paths) for key, value in fields.items() if not _is_one(value)}
    if name in keeping:
        trees = {key: tree for key, tree in trees.items() if tree}
    else:
        trees = {key: tree for key, tree in trees.items() if name not in _ACCUMULATING and tree.keys() & set(paths)}
    if trees or name in keeping:
        part.kept.append(OptaxState(name, trees, {key: value for key, value in fields.items() if _is_one(value)}))
    elif "count" in fields:
        part.counts.append(fields["count"])
    children = state.values() if isinstance(state, dict) else state if isinstance(state, tuple | list) else ()
    for key, child in zip(fields or range(len(children)), children, strict=True):
        if key not in trees:
            _collect(child, part, parts, paths, keeping)


def _is_one(value: Any) -> bool:
    """Whether it is a single array or number, not a tree."""
    return jax.tree_util.all_leaves([value])


def _by_path(tree: Any, paths: Collection[str]) -> dict[str, Any]:
    """The arrays of a tree of parameters, without the ``params`` around them in variables."""
    found = {path_of(keys): leaf for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    if all(path.startswith("params.") for path in found) and not found.keys() & set(paths):
        return {path.removeprefix("params."): leaf for path, leaf in found.items()}
    return found
