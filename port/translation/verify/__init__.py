"""Both sides run in float64: outputs in evaluation and in training, gradients, and what a step leaves in buffers."""

from port.judging import Compared
from port.translation.verify.other_lengths import OriginalAndWritten
from port.translation.verify.proof import Proof
from port.translation.verify.proving import prove
from port.translation.verify.settle_lengths import settled

__all__ = ["Compared", "OriginalAndWritten", "Proof", "prove", "settled"]
