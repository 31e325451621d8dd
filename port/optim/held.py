"""An optax state viewed from torch's parameters, and checked against what their optimizer stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import WeightsMismatch
from port.mapping import FROZEN as FROZEN_VARIABLES
from port.mapping import Mapping
from port.optim.layout import parameter_entries
from port.optim.parts import Partition, parts_of
from port.optim.reading import FROZEN, ParameterGroup
from port.pairs.optimizers import OptimizerPair

Shapes = dict[str, tuple[int, ...]]
_SHOWN = 3


@dataclass(frozen=True)
class TorchNamedState:
    """The contents of an optax state, under torch's names and in torch's layouts.

    Attributes:
        parts: its partitions; a single one if it is not partitioned.
    """

    parts: list[Partition]

    def fields(self, name: str) -> list[dict[str, Any]]:
        """A parameter's stored values: state field → value."""
        return [fields for part in self.parts for kept in part.kept if (fields := kept.of(name))]

    def by_key(self, pair: OptimizerPair, name: str) -> list[tuple[str, Any]]:
        """The same by torch's keys, without the pair's flags; fields unknown to the pair keep their optax name."""
        return [
            (pair.state.get(kept.name, {}).get(field, f"{kept.name}.{field}"), value)
            for part in self.parts
            for kept in part.kept
            for field, value in kept.of(name).items()
            if field not in pair.flags
        ]

    def place(self, name: str) -> int | None:
        """How many updates the schedule has seen beside a parameter's state; None if there is none."""
        return next((part.place for part in self.parts if name in part.paths), None)

    def parts_of(self, label: str, group: ParameterGroup) -> list[Partition]:
        """Find the parts that contain a group's schedule and plateau.

        They are the parts that store something for its parameters. If nothing is stored, as for SGD without momentum,
        it is the part with the group's label, or any if all have the same position.

        Raises:
            WeightsMismatch: the group's part cannot be identified.
        """
        if own := [part for part in self.parts if part.paths & set(group.names)]:
            return own
        loose = [part for part in self.parts if not part.paths and (part.place is not None or part.rates)]
        if called := [part for part in loose if part.label == label]:
            return called
        if any((part.place, part.rates) != (loose[0].place, loose[0].rates) for part in loose):
            raise WeightsMismatch(
                f"the state's partitions are {', '.join(str(part.label) for part in loose)} and their schedules have "
                f"different positions; which of them belongs to {label} ({few(group.names)}) is not known: use that "
                "label in the optax transformation"
            )
        return loose[:1]


def held_by(state: Any, groups: Sequence[ParameterGroup], shapes: Shapes, mapping: Mapping) -> TorchNamedState:
    """View a state from torch's parameters, and check it.

    Args:
        state: a whole transformation's state.
        groups: torch's parameters; see `port.optim.reading.read_groups`.
        shapes: the shapes of the parameters, by torch's names.
        mapping: from torch's names to the paths in the state.

    Raises:
        WeightsMismatch: it is not what the groups' optimizers with their options store, parameter by parameter.
    """
    entries = parameter_entries(mapping)
    sources = {source for entry in entries for source in entry.sources}
    targets = {target for entry in entries for target in entry.targets}
    parts = parts_of(state, sources | targets)
    paths = {path for part in parts for path in part.paths}
    if strange := sorted(paths - sources - targets):
        raise WeightsMismatch(
            f"the mapping has no parameter {few(strange)}, which is in the state; it has {', '.join(sorted(targets))}"
        )
    # The state's own paths determine its layout: torch may have split or joined its groups since, and now imply
    # another.
    in_torch_layout = paths <= sources and (not paths <= targets or any(group.pair.in_torch_layout for group in groups))
    if not in_torch_layout:
        parts = [part.renamed(lambda tree: _back(tree, mapping)) for part in parts]
    held = TorchNamedState(parts)
    memories, wanted = sum(len(part.lbfgs) for part in parts), sum(group.pair.closure for group in groups)
    if memories != wanted:
        raise WeightsMismatch(
            f"the state has {memories} TorchLbfgsState, the memory of torch.optim.LBFGS; expected "
            f"{wanted}, for {', '.join(dict.fromkeys(group.pair.torch for group in groups))}"
        )
    stepped = {name for group in groups for name in group.names}
    if left := sorted({name for part in parts for name in part.paths} - stepped):
        raise WeightsMismatch(
            f"the state has values of {few(left)}, which torch's optimizer does not train: pass it the "
            "parameters that the transformation was made for, with requires_grad as it was then"
        )
    for group in stepped_groups(held, groups, shapes, mapping):
        _check(held, group, shapes)
    return held


def stepped_groups(
    held: TorchNamedState, groups: Sequence[ParameterGroup], shapes: Shapes, mapping: Mapping
) -> list[ParameterGroup]:
    """Remove from the groups the parameters that do not change in JAX and that torch has never stepped.

    The mapping has them as frozen variables, or they are in the state's partition of untrained parameters: neither the
    state nor torch's optimizer stores anything for them.
    """
    frozen = {name for entry in mapping.entries if entry.collection == FROZEN_VARIABLES for name in entry.sources}
    is_parted = any(part.label == FROZEN for part in held.parts)
    if not frozen and not is_parted:
        return list(groups)
    stepped = []
    for group in groups:
        if group.numbers or group.arrays or group.pair.closure:
            stepped.append(group)
            continue
        fresh = TorchNamedState(_fresh(group, shapes))
        names = [
            name
            for name in group.names
            if not (is_parted or name in frozen) or held.by_key(group.pair, name) or not fresh.by_key(group.pair, name)
        ]
        if names:
            stepped.append(replace(group, names=tuple(names)))
    return stepped


def _back(tree: dict[str, Any], mapping: Mapping) -> dict[str, np.ndarray]:
    back: dict[str, np.ndarray] = {}
    for entry in parameter_entries(mapping):
        if all(target in tree for target in entry.targets):
            moved = entry.inverse()(tuple(np.asarray(tree[target]) for target in entry.targets))
            back |= zip(entry.sources, moved, strict=True)
    return back


def _check(held: TorchNamedState, group: ParameterGroup, shapes: Shapes) -> None:
    """Check that a group's optimizer, with its options, stores exactly what the state has."""
    pair = group.pair
    expected = TorchNamedState([] if pair.closure else _fresh(group, shapes))
    unlike: dict[tuple[str, str], list[str]] = {}
    for name in group.names:
        got, wanted = held.by_key(pair, name), expected.by_key(pair, name)
        if sorted(key for key, _ in got) != sorted(key for key, _ in wanted):
            unlike.setdefault((_keys(got), _keys(wanted)), []).append(name)
            continue
        shape_of = {key: np.shape(value) for key, value in wanted}
        for key, value in got:
            if np.shape(value) != shape_of[key]:
                raise WeightsMismatch(
                    f"{name}: the state's {key} has shape {np.shape(value)}, torch's is {shape_of[key]}"
                )
    if unlike:
        found = "; ".join(
            f"for {few(names)} it has {got}, the optimizer stores {wanted}" for (got, wanted), names in unlike.items()
        )
        raise WeightsMismatch(
            f"the state is not one of {pair.torch}'s with these options: {found}. Make the optimizer, with its "
            "options, like the one that the state is from"
        )


def _fresh(group: ParameterGroup, shapes: Shapes) -> list[Partition]:
    """The shapes of what the group's optimizer stores for its parameters."""
    chain = group.pair.chain(group.options).build()
    like = {name: jax.ShapeDtypeStruct(shapes[name], jnp.float32) for name in group.names}
    return parts_of(jax.eval_shape(chain.init, like), group.names)


def _keys(found: list[tuple[str, Any]]) -> str:
    return ", ".join(sorted(key for key, _ in found)) or "nothing"


def few(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
