"""Uniform and Bernoulli draws from a key, with the names and results of ``jax.random``.

The formulas are those of jax's ``jax/_src/random/core.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from port.errors import UsageError
from port.random.threefry import signed_bits

_MANTISSA_BITS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}


def uniform(
    key: Tensor,
    shape: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    minval: float | Tensor = 0.0,
    maxval: float | Tensor = 1.0,
    *,
    x64: bool = False,
) -> Tensor:
    """``jax.random.uniform``: draw numbers in [minval, maxval).

    ``dtype`` is float16, bfloat16, float32 or float64; the default is float32, or float64 under ``x64``. An explicit
    dtype decides alone: float64 is what jax draws with x64 enabled. Ranges other than [0, 1) are scaled as XLA compiles
    it, by a fused multiply-add; about one in 10**8 such draws may differ in its last bit. The same holds for float16 on
    processors that compute in float16 (seen: AVX512-FP16); on others XLA rounds twice, and last bits differ.
    """
    dtype = dtype or (torch.float64 if x64 else torch.float32)
    if dtype not in _MANTISSA_BITS:
        raise UsageError(f"uniform draws {', '.join(map(str, _MANTISSA_BITS))}, but dtype is {dtype}; choose one")
    unit = _unit(key, shape, dtype)
    if isinstance(minval, float) and isinstance(maxval, float) and (minval, maxval) == (0.0, 1.0):
        return unit
    low, high = (torch.as_tensor(edge, dtype=dtype, device=key.device) for edge in (minval, maxval))
    return torch.maximum(low, _multiply_add(unit, high - low, low))


def _unit(key: Tensor, shape: Sequence[int], dtype: torch.dtype, rows: Tensor | None = None) -> Tensor:
    """Draw numbers in [0, 1); with ``rows``, (n,), only for these rows."""
    kept = _MANTISSA_BITS[dtype]
    drawn = 8 * dtype.itemsize if kept >= 8 else 8  # as in jax: bfloat16 takes its 7 bits from a byte
    mantissa = (signed_bits(key, shape, drawn, rows) >> (drawn - kept)) & ((1 << kept) - 1)
    # jax puts these bits under the exponent of 1 and subtracts 1: the same number, since neither way rounds.
    return mantissa.to(dtype) * 2.0**-kept


def _multiply_add(unit: Tensor, span: Tensor, low: Tensor) -> Tensor:
    """unit × span + low, rounded once like XLA's fused multiply-add; XLA does not fuse in bfloat16."""
    if unit.dtype == torch.bfloat16:
        return unit * span + low
    if unit.dtype != torch.float64:
        wide = torch.float32 if unit.dtype == torch.float16 else torch.float64
        return (unit.to(wide) * span.to(wide) + low.to(wide)).to(unit.dtype)
    # Nothing is wider than float64: add the rounding errors of the product (Dekker) and the sum (Knuth) at the end.
    shifted_unit, shifted_span = unit * (2.0**27 + 1), span * (2.0**27 + 1)
    a, c = shifted_unit - (shifted_unit - unit), shifted_span - (shifted_span - span)
    b, d = unit - a, span - c
    product = unit * span
    total = product + low
    added = total - product
    return total + ((product - (total - added)) + (low - added) + (a * c - product + a * d + b * c + b * d))


def bernoulli(key: Tensor, p: float | Tensor = 0.5, shape: Sequence[int] | None = None, *, x64: bool = False) -> Tensor:
    """``jax.random.bernoulli``: True with probability ``p``; bool, of ``shape`` or of p's shape.

    jax compares uniforms in p's dtype: a Python float is float32, or float64 under ``x64``; a tensor keeps its dtype,
    so a float64 tensor means a JAX side with x64 enabled. Raises RuntimeError if ``p`` does not broadcast to ``shape``.
    """
    if isinstance(p, float):
        p = torch.full((), p, dtype=torch.float64 if x64 else torch.float32)
    if not isinstance(p, Tensor) or not p.is_floating_point():
        raise UsageError(f"p must be a float or a floating tensor, but got {p!r}; write 1.0 for 1")
    probability = p.to(key.device).expand(p.shape if shape is None else tuple(shape))
    return uniform(key, probability.shape, p.dtype) < probability


def bernoulli_rows(key: Tensor, p: float, shape: Sequence[int], rows: Tensor, *, x64: bool = False) -> Tensor:
    """``bernoulli(key, p, shape, x64=x64)[rows]``, drawing only those rows. ``rows``: (n,), not checked."""
    dtype = torch.float64 if x64 else torch.float32
    return _unit(key, shape, dtype, rows) < torch.full((), p, dtype=dtype, device=key.device)
