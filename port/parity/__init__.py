"""Compare two modules: outputs, gradients, running statistics, layer by layer."""

from port.parity.checking import check
from port.parity.compare.findings import Finding, LayerRow, Parting
from port.parity.diagnose.causes import Cause
from port.parity.report import CheckReport

__all__ = ["Cause", "CheckReport", "Finding", "LayerRow", "Parting", "check"]
