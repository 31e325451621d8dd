"""Two modules side by side: forward, gradients, running statistics, layer by layer."""

from port.parity.causes import Cause
from port.parity.checking import check
from port.parity.report import CheckReport, Finding, LayerRow, Parting

__all__ = ["Cause", "CheckReport", "Finding", "LayerRow", "Parting", "check"]
