"""How a process ended, for a person."""

from __future__ import annotations

import signal


def how_it_ended(code: int) -> str:
    """An exit code, negative for a signal, in words."""
    return f"signal {-code} ({signal_name(-code)})" if code < 0 else f"exit code {code}"


def signal_name(number: int) -> str:
    """SIGKILL for 9; some numbers have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"
