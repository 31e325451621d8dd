"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from port.translation.proof.proving import prove
from port.translation.proof.verdict import FORWARD, GRADIENT, Compared, Proof

__all__ = ["FORWARD", "GRADIENT", "Compared", "Proof", "prove"]
