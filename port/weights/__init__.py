"""Reads weights, converts them through a mapping, and writes them; in both directions."""

from port.weights.difference import largest_difference
from port.weights.files import read_arrays, write_arrays
from port.weights.modules import arrays_of, load, save
from port.weights.shared import (
    find_initial_weights,
    initial_weights,
    save_final_weights,
    share_initial_weights,
)
from port.weights.variables import to_flax, to_torch

__all__ = [
    "arrays_of",
    "find_initial_weights",
    "initial_weights",
    "largest_difference",
    "load",
    "read_arrays",
    "save",
    "save_final_weights",
    "share_initial_weights",
    "to_flax",
    "to_torch",
    "write_arrays",
]
