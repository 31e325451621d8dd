"""The colours of the two sides, and where their differences begin: the same in every picture."""

from __future__ import annotations

TORCH, JAX, LIMIT, CONTROL = "#d1495b", "#1d6fa5", "#555555", "#bbbbbb"
ON_DARK = {TORCH: "#f2808e", JAX: "#63b3ea", LIMIT: "#a9a9a9", CONTROL: "#5a5f66"}
"""The same, lighter, to be read on a dark ground."""


def smallest_drawn(precision: str) -> float:
    """Below the spacing of the type: where a log scale begins, and a difference of exactly 0 is drawn."""
    return 1e-17 if precision == "float64" else 1e-9
