"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from port.judging.compared import Compared
from port.translation.proof.other_lengths import Sides
from port.translation.proof.proving import prove
from port.translation.proof.settling import settled
from port.translation.proof.verdict import Proof

__all__ = ["Compared", "Proof", "Sides", "prove", "settled"]
