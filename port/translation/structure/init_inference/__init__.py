"""How the original's parameters and buffers start when it is constructed: its own code, watched.

`watching` sees every operator that a construction runs and keeps, for each element of each tensor, the story of how it
came about (`stories`, `shadows`). `constructions` compares two, `layers` says what torch's own layers are given beyond
their usual start, `writing` writes jax's initializers.
"""

from port.translation.structure.init_inference.starts import ConstructFails, Initial, Seen, watched

__all__ = ["ConstructFails", "Initial", "Seen", "watched"]
