"""Constants in torch's code that differ in Flax: the value with which the two agree is computed, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, isclose, isfinite, log, sqrt
from typing import Any

import numpy as np
import torch

from port.parity.diagnose.causes.operation import Arguments, TorchOperation, Way, do, having, together

_ARITHMETIC = ("add", "sub", "rsub", "mul", "div", "rdiv", "pow", "rpow", "clamp", "masked_fill", "where", "full")
_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_NOT_NUMBERS = ("p", "dropout_p", "momentum", "dropout")
_MOST_STEPS = 12
_BASES = (1e3, 1e4, 1e5, 5e5, 1e6)
"""Usual bases of position frequencies: 10000 in the first transformer, others for longer sequences."""
LEAST_VALUES = 8
"""With fewer values, any constant could be fitted."""


@dataclass(frozen=True)
class CodeNumber:
    """One constant of torch's code, at all places where it is used.

    Attributes:
        value: the constant.
        places: the operation, its argument, and the sign with which the constant appears there, 1 or −1.
    """

    value: float
    places: tuple[tuple[TorchOperation, str, int], ...]

    @property
    def is_a_bound(self) -> bool:
        """Whether the result may not react to small changes, as for a comparison or a clamp."""
        return all(operation.base in (*_COMPARED, "clamp") for operation, _, _ in self.places)

    def ways(self, other: float) -> dict[int, Way]:
        """Return the operations that use it, changed to another value."""
        last = self.places[-1][0]
        both = "±" if any(sign < 0 for _, _, sign in self.places) else ""
        what = f"{self.places[-1][1]}=" if not self.places[-1][1].isdecimal() else ""
        if what in ("input=", "other=", "value=", "exponent="):
            what = ""
        why = f"torch has {what}{both}{said(self.value)} in {last.base}, Flax {both}{said(other)}"
        made: dict[int, Way] = {}
        for operation, key, sign in self.places:
            run = _with(key, sign * other if isinstance(self.value, float) or other % 1 else sign * int(other))
            before = made.get(operation.number)
            way = Way("another-number", why, run, f"Take {said(self.value)}.", where=last.said)
            made[operation.number] = way if before is None else replace(way, run=together((before, way)))
        return made


def said(value: float) -> str:
    """Format a number as code writes it."""
    return f"{value:.6g}"


def numbers_of(operations: Sequence[TorchOperation], *, alone: bool = False) -> Iterator[CodeNumber]:
    """Yield the constants that operations are called with.

    Args:
        operations: function calls.
        alone: yield constants that occur several times within one operation, the last first; otherwise all occurrences
            of a value together.
    """
    found: dict[float, list[tuple[TorchOperation, str, int]]] = {}
    computed = {id(operation.result) for operation in operations if operation.operands}
    for operation in operations:
        for key, value in operation.arguments.items():
            if id(value) in computed and torch.is_tensor(value):
                continue  # a computed value, such as a mean
            number = value.item() if torch.is_tensor(value) and value.ndim == 0 and not value.requires_grad else value
            if not isinstance(number, int | float) or isinstance(number, bool) or not isfinite(number):
                continue
            is_counted = operation.base in (*_ARITHMETIC, *_COMPARED)
            if key not in _NOT_NUMBERS and (is_counted or (isinstance(number, float) and not torch.is_tensor(value))):
                found.setdefault(number, []).append((operation, key, 1))
    for value, places in found.items():
        if not alone:
            yield CodeNumber(value, tuple(places))
            if value > 0 and -value in found:  # such as the two bounds of a clamp
                below = [(operation, key, -1) for operation, key, _ in found[-value]]
                yield CodeNumber(value, (*below, *places))
            continue
        for place in reversed(places) if len(places) > 1 else ():
            yield CodeNumber(value, (place,))


def usual(number: CodeNumber) -> list[float]:
    """Return usual mistaken values of a constant."""
    own = number.value
    if any(operation.base in _COMPARED for operation, _, _ in number.places) or isinstance(own, int):
        near = [own + step for step in (1, -1, 2, -2)]
    else:
        near = []
    if any(operation.base in _COMPARED for operation, _, _ in number.places):
        return near
    more = [0.0, 1.0, -own, own * 2, own / 2, own * own, own * 10, own / 10, own * 100, own / 100]
    more += [sqrt(own), 1 / own, 1 / sqrt(own)] if own > 0 else [1 / own] if own else []
    more += _other_bases(own)
    return [value for value in dict.fromkeys([*near, *more]) if value != own and isfinite(value)]


def _other_bases(own: float) -> list[float]:
    """Return other bases of frequencies for a base; their logarithms, with the same sign, for a logarithm."""
    if own in _BASES:
        return list(_BASES)
    if any(isclose(abs(own), log(base), rel_tol=1e-9) for base in _BASES):
        return [log(base) if own > 0 else -log(base) for base in _BASES if not isclose(exp(abs(own)), base)]
    return []


def bearing(number: CodeNumber, residual: Callable[[float], np.ndarray | None], start: np.ndarray) -> float | None:
    """Return the share of the difference in the direction in which a constant moves the result; 1 is all of it.

    Args:
        number: torch's constant.
        residual: the difference that is left with another value; None if that cannot run.
        start: the difference with torch's value.
    """
    after = residual(number.value + 1e-4 * (abs(number.value) or 1.0))
    if after is None or after.shape != start.shape:
        return None
    slope = after - start
    size = float(slope @ slope) * float(start @ start)
    return float(slope @ start) ** 2 / size if size else 0.0


def solved(number: CodeNumber, residual: Callable[[float], np.ndarray | None], start: np.ndarray) -> Iterator[float]:
    """Yield values that bring the two closer, each better than the last, by Gauss-Newton steps with secants.

    Args:
        number: torch's constant.
        residual: the difference that is left with another value; None if that cannot run.
        start: the difference with torch's value.
    """
    at, left = float(number.value), start
    step = 1e-4 * (abs(at) or 1.0)
    other = at + step
    for _ in range(_MOST_STEPS):
        after = residual(other)
        if after is None or after.shape != left.shape or other == at:
            return
        slope = (after - left) / (other - at)
        size = float(slope @ slope)
        along = float(slope @ after)
        if not size:
            return
        at, left, other = other, after, other - along / size
        yield other


def _with(key: str, value: float) -> Any:
    def run(function: Any, arguments: Arguments) -> Any:
        own = arguments[key]
        new = torch.as_tensor(value, dtype=own.dtype) if torch.is_tensor(own) else value
        return do(function, {**arguments, key: new})

    return run


@dataclass(frozen=True)
class Factor(CodeNumber):
    """A factor in Flax on an operand that torch does not scale: torch's factor is 1."""

    def ways(self, other: float) -> dict[int, Way]:
        """Return the operation with its operand scaled by another factor."""
        ((operation, key, _),) = self.places
        value = operation.operands[key]
        part = "its first operand" if key == next(iter(operation.arguments)) else "its second operand"
        factor = f"1/{round(1 / other)}" if 0 < other < 1 and abs(1 / other - round(1 / other)) < 1e-6 else said(other)
        why = f"Flax multiplies {part} by {factor} before {operation.base}, torch does not"
        run = having(**{key: value.detach() * other})
        return {operation.number: Way("scale-added", why, run, "Remove the factor.", where=operation.said)}


def factors_of(operations: Sequence[TorchOperation]) -> Iterator[Factor]:
    """Yield a factor of 1 for each floating operand, the last first."""
    for operation in reversed(operations):
        for key, value in operation.operands.items():
            if value.is_floating_point() and value.numel() > 1:
                yield Factor(1.0, ((operation, key, 1),))
