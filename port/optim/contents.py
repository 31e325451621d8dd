"""The contents for a transformation's state, from the torch optimizers that it was made from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from port.mapping import Mapping
from port.optim.assembling import Assembly
from port.optim.layout import parameter_entries
from port.optim.memory import in_order
from port.optim.state import Contents
from port.pairs.schedules import Plateau


def contents_of_torch(assembly: Assembly, mapping: Mapping) -> dict[str, Contents]:
    """The contents of torch's optimizers, by label."""
    return {
        label: Contents(
            group.pair,
            group.numbers,
            {key: _carried(arrays, assembly, mapping) for key, arrays in group.arrays.items()},
            assembly.places.get(label),
            _rates(assembly.plateaus.get(label)),
            jax.dtypes.canonicalize_dtype(group.scalars).name,
            in_order(group.memory, group.sizes, sorted(group.sizes)) if group.memory else {},
        )
        for label, group in assembly.groups.items()
    }


def with_present_rates(state: Any, assembly: Assembly) -> Any:
    """Set a state's hyperparameters, if it has any, to torch's current ones: a fresh state has the initial ones."""
    alone = next(iter(assembly.groups), "")

    def present(keys: Any, part: Any) -> Any:
        if not isinstance(part, optax.InjectStatefulHyperparamsState):
            return part
        label = next((key.key for key in keys if getattr(key, "key", None) in assembly.groups), alone)
        options = assembly.groups[label].options
        rates = {**options, "learning_rate": options["lr"], "b1": options.get("betas", (None,))[0]}
        shown = {name: jnp.asarray(rates[name], fresh.dtype) for name, fresh in part.hyperparams.items()}
        return part._replace(hyperparams=shown)

    def injected(part: Any) -> bool:
        return isinstance(part, optax.InjectStatefulHyperparamsState)

    return jax.tree_util.tree_map_with_path(present, state, is_leaf=injected)


def _rates(plateau: Plateau | None) -> dict[str, Any]:
    """The state of ReduceLROnPlateau, by field."""
    fields = ("learning_rate", "best", "num_bad_epochs", "cooldown_counter")
    return {} if plateau is None else {name: getattr(plateau, name) for name in fields}


def _carried(arrays: dict[str, np.ndarray], assembly: Assembly, mapping: Mapping) -> dict[str, np.ndarray]:
    """Convert a moment to the state's layout: every move of its weight applies to it."""
    if assembly.in_torch_layout:
        return arrays
    carried: dict[str, np.ndarray] = {}
    for entry in parameter_entries(mapping):
        if all(source in arrays for source in entry.sources):
            moments = tuple(arrays[source] for source in entry.sources)
            carried |= zip(entry.targets, entry(moments), strict=True)
    return carried
