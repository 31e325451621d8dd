"""torch.linspace in numpy, for constructors that give each layer its own rate."""

from __future__ import annotations

import numpy as np


def torch_linspace(start: float, end: float, steps: int) -> np.ndarray:
    """Return evenly spaced numbers, bit for bit those of ``torch.linspace`` in single precision.

    numpy's differ in the last bit: torch counts from the start up to the middle and from the end after it, with a
    rounded step (``aten/src/ATen/native/cpu/RangeFactoriesKernel.cpp``), each number by one fused operation.

    Args:
        start: the first number.
        end: the last number.
        steps: how many numbers.

    Returns:
        float32, of shape ``(steps,)``.
    """
    first, last = np.float32(start), np.float32(end)
    if steps < 2:
        return np.full(steps, first)
    step = np.float64((last - first) / np.float32(steps - 1))
    number = np.arange(steps)
    ahead, back = np.float64(first) + step * number, np.float64(last) - step * (steps - 1 - number)
    return np.where(number < steps // 2, ahead, back).astype(np.float32)
