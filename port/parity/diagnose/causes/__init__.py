"""Find why two models diverge: test explanations, and report those that make the two agree."""

from port.parity.diagnose.causes.cause import Cause

__all__ = ["Cause"]
