"""The mapping of one model's tensors to the other's, and its moves, on numpy."""

from port.mapping.mapping import Entry, Mapping
from port.mapping.moves import Move, Permute

__all__ = ["Entry", "Mapping", "Move", "Permute"]
