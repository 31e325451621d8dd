"""Find out how the original's parameters and buffers are initialised, by watching its own code run.

`watching` sees every operator that a construction runs and keeps, for each element of each tensor, a record of its
provenance, called its story (`stories`, `shadows`). `constructions` compares two constructions, `layers` finds where
torch's own layers deviate from their usual initialisation, `writing` writes jax's initializers.
"""

from port.translation.structure.init_inference.starts import ConstructFails, Initial, Seen, watched

__all__ = ["ConstructFails", "Initial", "Seen", "watched"]
