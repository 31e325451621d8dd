"""Estimate how long a comparison takes, from the cost of its operators."""

from __future__ import annotations

from port.errors import UsageError
from port.judging.limits import LONG
from port.parity.sides.cost import Cost

_COMPILED, _RUN_ONE_BY_ONE = 0.025, 0.15
"""Processor seconds that both passes take per operator of the original: traced and compiled as a whole, as in a proof;
and run one by one in both modes, as in `port.check`. Measured with jaxlib 0.10.2 on an AMD EPYC (Zen 3)."""
_FORWARD_ALONE = 0.4
"""The forward pass's share of the operators of both passes."""
_PRODUCTS, _CONVOLUTIONS, _GROUPED, _LOOPED, _RESULTS = 20e9, 10e9, 0.15e9, 1e9, 1e9
"""Floating-point operations per second of matrix products, of dense and of grouped convolutions and of the gradients
of strided ones, and bytes of results per second. Both sides run, so these are half of one side's rates."""


def seconds_compiled(cost: Cost, *, gradients: bool) -> float:
    """Return the seconds that one pass of both sides takes if the other side is compiled.

    Args:
        cost: the cost of the original's forward pass.
        gradients: whether there is a backward pass.
    """
    return _COMPILED * cost.operators * (1 if gradients else _FORWARD_ALONE) + _running(cost, gradients=gradients)


def seconds_one_by_one(cost: Cost, *, steps: int, gradients: bool, parts: int = 1) -> float:
    """Return the seconds that `port.check` takes.

    Args:
        cost: the cost of the original's forward pass.
        steps: forward passes in training before buffers are compared.
        gradients: whether there is a backward pass.
        parts: number of parts in which the parameters' gradients are taken.
    """
    started = _RUN_ONE_BY_ONE * cost.operators * (1 if gradients else _FORWARD_ALONE)
    return parts * (started + 2 * _running(cost, gradients=gradients)) + steps * _running(cost, gradients=False)


def _running(cost: Cost, *, gradients: bool) -> float:
    forward = (
        cost.products / _PRODUCTS
        + cost.convolutions / _CONVOLUTIONS
        + cost.grouped / _GROUPED
        + cost.results / _RESULTS
    )
    return 3 * forward + cost.looped / _LOOPED if gradients else forward


def time_limit_of(seconds: float) -> float:
    """Validate a time limit.

    Raises:
        UsageError: it is not above 0.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"the time limit is a number of seconds above 0; got {seconds!r}")
    return float(seconds)


def sizes_limit_of(seconds: float) -> float:
    """Validate a time limit of something optional: it may be 0.

    Raises:
        UsageError: it is below 0.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise UsageError(f"the time limit for other sizes is a number of seconds, 0 for none; got {seconds!r}")
    return float(seconds)


def duration(seconds: float) -> str:
    """Format seconds, rounded: ``40 seconds``, ``4 minutes``, ``2 hours``."""
    count, unit = next(
        ((seconds / size, unit) for size, unit in ((3600, "hour"), (60, "minute")) if seconds >= 1.5 * size),
        (seconds, "second"),
    )
    whole = max(1, round(count))
    return f"{whole} {unit}{'' if whole == 1 else 's'}"


def announcement(seconds: float) -> str:
    """Return what to print before a long comparison; empty for a short one."""
    return f"comparing takes about {duration(seconds)}" if seconds >= LONG else ""


def overtime(seconds: float, limit: float) -> str:
    """Return a sentence with the estimated time and the limit if the estimate exceeds it; else the empty string."""
    if seconds <= limit:
        return ""
    return f"it would take about {duration(seconds)}, and the time limit is {duration(limit)}"
