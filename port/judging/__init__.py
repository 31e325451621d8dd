"""The outcome of every comparison, and the limits on how far apart two equal sides may be."""

from port.judging.compared import Compared
from port.judging.limits import TENSORS, Limits
from port.judging.status import Status, worst

__all__ = ["TENSORS", "Compared", "Limits", "Status", "worst"]
