"""Colours of the two sides, and the floor of log scales: the same in every figure."""

from __future__ import annotations

TORCH, JAX, LIMIT, CONTROL = "#d1495b", "#1d6fa5", "#555555", "#bbbbbb"
ON_DARK = {TORCH: "#f2808e", JAX: "#63b3ea", LIMIT: "#a9a9a9", CONTROL: "#5a5f66"}
"""The same colours, lighter, for a dark background."""


def smallest_drawn(precision: str) -> float:
    """Return the lower end of a log scale, below the type's spacing; a difference of exactly 0 is drawn there."""
    return 1e-17 if precision == "float64" else 1e-9
