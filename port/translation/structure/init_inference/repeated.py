"""Labels repeated along an axis, as views without memory of their own: large tables are labelled by row."""

from __future__ import annotations

import numpy as np

_AT_ONCE = 1 << 24
"""Number of elements compared at once."""


def in_rows(labels: np.ndarray) -> np.ndarray:
    """Return the labels; where each row has one label only, as a view of one column.

    Args:
        labels: the labels of a tensor's elements.
    """
    if labels.ndim < 2 or not labels.size or varying(labels).size < labels.size:
        return labels
    first = labels[..., :1]
    parts = np.array_split(labels, min(len(labels), 1 + labels.size // _AT_ONCE))
    if not all((part == part[..., :1]).all() for part in parts):
        return labels
    return np.broadcast_to(first.copy(), labels.shape)


def varying(labels: np.ndarray) -> np.ndarray:
    """Reduce axes along which labels are repeated without memory to length 1.

    Args:
        labels: an array, or a view from `in_rows` or ``np.broadcast_to``.
    """
    return labels[(*(slice(0, 1) if stride == 0 else slice(None) for stride in labels.strides), ...)]
