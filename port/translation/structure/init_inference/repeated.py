"""Labels that are the same along an axis, as views that take no memory for it: a large table's go by its rows."""

from __future__ import annotations

import numpy as np

_AT_ONCE = 1 << 24
"""Elements that are compared at once."""


def in_rows(labels: np.ndarray) -> np.ndarray:
    """The same labels; where each row of a table has one label, a view of these.

    Args:
        labels: of the elements of a tensor.
    """
    if labels.ndim < 2 or not labels.size or varying(labels).size < labels.size:
        return labels
    first = labels[..., :1]
    parts = np.array_split(labels, min(len(labels), 1 + labels.size // _AT_ONCE))
    if not all((part == part[..., :1]).all() for part in parts):
        return labels
    return np.broadcast_to(first.copy(), labels.shape)


def varying(labels: np.ndarray) -> np.ndarray:
    """Labels with axes of length 1 where they are repeated without memory.

    Args:
        labels: maybe a view that `in_rows` or ``np.broadcast_to`` gave.
    """
    return labels[(*(slice(0, 1) if stride == 0 else slice(None) for stride in labels.strides), ...)]
