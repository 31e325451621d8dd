"""Reorders LBFGS's vectors over all parameters: torch has them in the optimizer's order, JAX in the order of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from port.errors import WeightsMismatch

Entry = dict[str, Any]
VECTORS = ("d", "prev_flat_grad")
LISTS = ("old_dirs", "old_stps")


def as_numbers(entry: Mapping[str, Any]) -> Entry:
    """torch's entry with numpy arrays for its tensors, without the scratch list that torch recreates."""
    return {key: _numbers(value) for key, value in entry.items() if key != "al" and value is not None}


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value.detach().numpy() if hasattr(value, "detach") else value


def in_order(entry: Entry, sizes: Mapping[str, int], wanted: Sequence[str]) -> Entry:
    """Reorder the entry's vectors to another order of the parameters.

    Args:
        entry: torch's entry, or one like it.
        sizes: name → number of elements, in the present order.
        wanted: the names in the new order.

    Raises:
        WeightsMismatch: a vector's length is not the total of all parameters.
    """
    total = sum(sizes.values())
    for vector in (*(entry[key] for key in VECTORS if key in entry), *(v for key in LISTS for v in entry.get(key, ()))):
        if np.shape(vector) != (total,):
            raise WeightsMismatch(
                f"LBFGS remembers vectors of shape {np.shape(vector)}; {', '.join(sizes)} have {total} elements: it is "
                "the memory of other parameters"
            )
    begins = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    places = np.concatenate([np.arange(begins[name], begins[name] + sizes[name]) for name in wanted])
    changed = {key: np.asarray(entry[key])[places] for key in VECTORS if key in entry}
    changed |= {key: [np.asarray(vector)[places] for vector in entry[key]] for key in LISTS if key in entry}
    return {**entry, **changed}
