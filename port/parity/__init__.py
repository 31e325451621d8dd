"""Two modules side by side: forward, gradients, running statistics, layer by layer."""

from port.parity.checking import check
from port.parity.report import CheckReport, Finding, LayerRow, Parting

__all__ = ["CheckReport", "Finding", "LayerRow", "Parting", "check"]
