"""How every comparison ends, and how far apart two sides may be that are the same."""

from port.judging.compared import Compared
from port.judging.limits import TENSORS, Limits
from port.judging.status import Status, worst

__all__ = ["TENSORS", "Compared", "Limits", "Status", "worst"]
