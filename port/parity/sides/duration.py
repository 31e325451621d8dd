"""How long a comparison takes: estimated before it runs, from what its operators cost."""

from __future__ import annotations

from port.errors import UsageError
from port.judging.limits import LONG
from port.parity.sides.cost import Cost

_COMPILED, _RUN_ONE_BY_ONE = 0.025, 0.15
"""Seconds of a processor that both passes take an operator of the original's: traced and compiled whole, as a proof
does; and run one by one in both modes, as `port.check` does. Measured with jaxlib 0.10.2 on an AMD EPYC (Zen 3)."""
_FORWARD_ALONE = 0.4
"""How much of the operators of both passes is in the forward pass."""
_PRODUCTS, _CONVOLUTIONS, _GROUPED, _LOOPED, _RESULTS = 20e9, 10e9, 0.15e9, 1e9, 1e9
"""Floating-point operations a second of matrix products, of dense and of grouped convolutions and of the gradients of
strided ones, and bytes of results a second; both sides run, so it is half of what one of them does."""


def seconds_compiled(cost: Cost, *, gradients: bool) -> float:
    """How long one pass of both sides takes where the other side is compiled.

    Args:
        cost: of the original's forward pass.
        gradients: whether there is a backward pass.
    """
    return _COMPILED * cost.operators * (1 if gradients else _FORWARD_ALONE) + _running(cost, gradients=gradients)


def seconds_one_by_one(cost: Cost, *, steps: int, gradients: bool, parts: int = 1) -> float:
    """How long `port.check` takes; arguments as of `seconds_compiled`.

    Args:
        cost: of the original's forward pass.
        steps: forward passes in training before buffers are compared.
        gradients: whether there is a backward pass.
        parts: in how many parts the gradients of the parameters are taken.
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
    """A time limit that is one.

    Raises:
        UsageError: it is not above 0.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"the time limit is a number of seconds above 0; got {seconds!r}")
    return float(seconds)


def sizes_limit_of(seconds: float) -> float:
    """A time limit of what may be left out: 0 is one too.

    Raises:
        UsageError: it is below 0.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise UsageError(f"the time limit for other sizes is a number of seconds, 0 for none; got {seconds!r}")
    return float(seconds)


def duration(seconds: float) -> str:
    """``40 seconds``, ``4 minutes``, ``2 hours``; rounded."""
    count, unit = next(
        ((seconds / size, unit) for size, unit in ((3600, "hour"), (60, "minute")) if seconds >= 1.5 * size),
        (seconds, "second"),
    )
    whole = max(1, round(count))
    return f"{whole} {unit}{'' if whole == 1 else 's'}"


def announcement(seconds: float) -> str:
    """What to say before a comparison that takes long; empty for one that does not."""
    return f"comparing takes about {duration(seconds)}" if seconds >= LONG else ""


def overtime(seconds: float, limit: float) -> str:
    """How long a comparison would take and how long it may, in words; empty where it may."""
    if seconds <= limit:
        return ""
    return f"it would take about {duration(seconds)}, and the time limit is {duration(limit)}"
