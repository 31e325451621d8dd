"""Why two models part: explanations are tried, and those that make the two agree are told."""

from port.parity.diagnose.causes.cause import Cause

__all__ = ["Cause"]
