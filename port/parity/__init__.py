"""Compare two modules: outputs, gradients, running statistics, layer by layer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.extras import naming_extras

if TYPE_CHECKING:
    from port.parity.checking import check
    from port.parity.compare.findings import Finding, LayerRow, Parting
    from port.parity.diagnose.causes import Cause
    from port.parity.flax_checking import check_flax
    from port.parity.report import CheckReport

# Comparing two Flax modules needs no torch.
_HOMES = {
    "Cause": "port.parity.diagnose.causes",
    "CheckReport": "port.parity.report",
    "Finding": "port.parity.compare.findings",
    "LayerRow": "port.parity.compare.findings",
    "Parting": "port.parity.compare.findings",
    "check": "port.parity.checking",
    "check_flax": "port.parity.flax_checking",
}

__all__ = ["Cause", "CheckReport", "Finding", "LayerRow", "Parting", "check", "check_flax"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with naming_extras(f"port.{name}"):
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.parity' has no attribute {name!r}")
