"""What a lesson prints, read and compared: titles, and named numbers beneath each."""

from __future__ import annotations

import subprocess

import numpy as np

Printed = dict[str, dict[str, np.ndarray]]


def output(process: subprocess.Popen[str]) -> str:
    """All that a lesson prints; it must end by itself, without an error."""
    try:
        out, errors = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, out + errors
    return out


def differences(a: Printed, b: Printed) -> dict[str, float]:
    """The largest difference under each title."""
    assert [(title, list(results)) for title, results in a.items()] == [(title, list(r)) for title, r in b.items()]
    return {
        title: max(np.abs(numbers - b[title][name]).max() for name, numbers in a[title].items())
        for title, results in a.items()
    }
