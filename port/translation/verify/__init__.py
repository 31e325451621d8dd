"""The proof: run both sides in float64, and compare outputs, gradients and buffers in evaluation and in training."""

from port.judging import Compared
from port.translation.verify.other_lengths import OriginalAndWritten
from port.translation.verify.proof import Proof
from port.translation.verify.proving import prove
from port.translation.verify.settle_lengths import settled

__all__ = ["Compared", "OriginalAndWritten", "Proof", "prove", "settled"]
