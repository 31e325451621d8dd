"""A model of formulas by hand: standardised and clamped input, RMSNorm, gates, axes moved, a soft cap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

from .fault import Fault, Twin, drawn

WIDTH = 8


class Norm(nn.Module):
    """RMSNorm as it is written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Formula(nn.Module):
    """Features (N, 6) → scores (N, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.one = nn.Linear(6, WIDTH), Norm(), nn.Linear(WIDTH, WIDTH)
        self.two, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x - x.mean(0)) / (x.std(0) + 1e-3)
        x = self.inner(x.clamp(-1.5, 1.2))
        h = self.norm(x)
        h = h + torch.tanh(self.one(h))
        gate, value = self.two(h).chunk(2, -1)
        h = torch.sigmoid(gate / 0.7) * value
        h = h.reshape(-1, 2, WIDTH // 2).transpose(1, 2).reshape(-1, WIDTH)
        return 20.0 * torch.tanh(self.out(h.repeat_interleave(2, dim=-1)) / 20.0)


class FlaxNorm(nnx.Module):
    """The same."""

    def __init__(self, eps: float, mean: Callable[..., jax.Array], more: float) -> None:
        self.weight = nnx.Param(jnp.ones(WIDTH))
        self.eps, self.mean, self.more = eps, mean, more

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(self.mean(x**2, axis=-1, keepdims=True) + self.eps) * (self.more + self.weight[...])


def standardised(x: jax.Array) -> jax.Array:
    return (x - x.mean(0)) / (x.std(0, ddof=1) + 1e-3)


def by_variance(x: jax.Array) -> jax.Array:
    return (x - x.mean(0)) / (x.var(0, ddof=1) + 1e-3)


def clamped(x: jax.Array) -> jax.Array:
    return jnp.clip(x, -1.5, 1.2)


def halves(x: jax.Array) -> list[jax.Array]:
    return jnp.split(x, 2, -1)


def turned(x: jax.Array) -> jax.Array:
    return x.reshape(-1, 2, WIDTH // 2).swapaxes(1, 2).reshape(-1, WIDTH)


class FlaxFormula(nnx.Module):
    """The same."""

    def __init__(
        self,
        *,
        standardised: Callable[[jax.Array], jax.Array] = standardised,
        clamped: Callable[[jax.Array], jax.Array] = clamped,
        eps: float = 1e-5,
        mean: Callable[..., jax.Array] = jnp.mean,
        more: float = 0.0,
        times: int = 1,
        residual: Callable[[Any, jax.Array, jax.Array], jax.Array] = lambda self, x, h: h + jnp.tanh(self.one(h)),
        halves: Callable[[jax.Array], Any] = halves,
        gated: Callable[[jax.Array, jax.Array], jax.Array] = lambda gate, value: jax.nn.sigmoid(gate / 0.7) * value,
        turned: Callable[[jax.Array], jax.Array] = turned,
        repeated: Callable[[jax.Array], jax.Array] = lambda x: jnp.repeat(x, 2, axis=-1),
        cap: float = 20.0,
        after: Callable[[jax.Array], jax.Array] = lambda x: x,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.inner, self.norm = nnx.Linear(6, WIDTH, rngs=rngs), FlaxNorm(eps, mean, more)
        self.one, self.two = nnx.Linear(WIDTH, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 2 * WIDTH, rngs=rngs)
        self.out = nnx.Linear(2 * WIDTH, 5, rngs=rngs)
        self.standardised, self.clamped, self.times, self.residual = standardised, clamped, times, residual
        self.halves, self.gated, self.turned, self.repeated = halves, gated, turned, repeated
        self.cap, self.after = cap, after

    def __call__(self, x: jax.Array) -> jax.Array:
        h = x = self.inner(self.clamped(self.standardised(x)))
        for _ in range(self.times):
            h = self.norm(h)
        h = self.residual(self, x, h)
        h = self.turned(self.gated(*self.halves(self.two(h))))
        return self.after(self.cap * jnp.tanh(self.out(self.repeated(h)) / self.cap))


FORMULA = Twin("Formula", Formula, FlaxFormula, lambda: drawn(9, 6))

GATE, GATED, LOWER = jax.nn.sigmoid, "gated", -1.5

FAULTS = (
    Fault("variance for deviation", FORMULA, "inner", ("variance-or-deviation",), {"standardised": by_variance}),
    Fault(
        "mean over another axis",
        FORMULA,
        "inner",
        ("another-axis",),
        {"standardised": lambda x: (x - x.mean(1, keepdims=True)) / (x.std(0, ddof=1) + 1e-3)},
    ),
    Fault("another bound", FORMULA, "inner", ("another-number",), {"clamped": lambda x: jnp.clip(x, LOWER, 0.9)}),
    Fault("no upper bound", FORMULA, "inner", ("bound-missing",), {"clamped": lambda x: jnp.maximum(x, LOWER)}),
    Fault("a factor more", FORMULA, "inner", ("scale-added",), {"clamped": lambda x: jnp.clip(x / 255, LOWER, 1.2)}),
    Fault("epsilon by hand", FORMULA, "norm", ("another-number",), {"eps": 3e-3}),
    Fault("sum for mean by hand", FORMULA, "norm", ("mean-or-sum",), {"mean": jnp.sum}),
    Fault("1 + scale by hand", FORMULA, "norm", ("scale-plus-one",), {"more": 1.0}),
    Fault("a layer twice", FORMULA, "one", ("layer-twice",), {"times": 2}),
    Fault(
        "another residual",
        FORMULA,
        "two",
        ("another-operand",),
        {"residual": lambda self, x, h: x + jnp.tanh(self.one(h))},
    ),
    Fault(
        "activation behind the residual",
        FORMULA,
        "two",
        ("order-of-steps",),
        {"residual": lambda self, x, h: jnp.tanh(h + self.one(h))},
    ),
    Fault("parts interleaved", FORMULA, "out", ("interleaved",), {"halves": lambda x: [x[..., ::2], x[..., 1::2]]}),
    Fault("another temperature", FORMULA, "out", ("another-number",), {GATED: lambda g, v: GATE(g / 0.45) * v}),
    Fault("a sum for a product", FORMULA, "out", ("another-function",), {GATED: lambda g, v: GATE(g / 0.7) + v}),
    Fault("axes not moved", FORMULA, "out", ("head-order", "flatten-order"), {"turned": lambda x: x}),
    Fault(
        "repeated in turn",
        FORMULA,
        "out",
        ("axis-order", "repeated-in-turn"),
        {"repeated": lambda x: jnp.concatenate([x, x], -1)},
    ),
    Fault("another soft cap", FORMULA, "", ("another-number",), {"cap": 30.0}),
    Fault("an activation more", FORMULA, "", ("step-added",), {"after": jax.nn.sigmoid}),
    Fault(
        "gradient of a gate stopped",
        FORMULA,
        "two",
        ("gradient-stopped",),
        {GATED: lambda g, v: jax.lax.stop_gradient(GATE(g / 0.7)) * v},
    ),
)
