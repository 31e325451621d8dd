"""How a process ended, in words."""

from __future__ import annotations

import signal


def how_it_ended(code: int) -> str:
    """Describe an exit code, negative for a signal."""
    return f"signal {-code} ({signal_name(-code)})" if code < 0 else f"exit code {code}"


def signal_name(number: int) -> str:
    """The name of a signal, SIGKILL for 9; some numbers have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"
