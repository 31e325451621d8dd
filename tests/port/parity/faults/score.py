"""A scorer that gives its losses: ignored and weighted labels, squares, Huber, a kink, one tensor under two names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch.nn import functional

from port.nn import functional as F
from port.nn.functional.kinks import absolute

from .fault import Fault, Twin, drawn

WIDTH, CLASSES = 6, 5
WEIGHTS = 0.5, 1.0, 2.0, 1.5, 0.7


class Score(nn.Module):
    """Features (N, 6), some of them zero, and labels (N,), one of them ignored → losses by name."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.head, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES), nn.Linear(CLASSES, WIDTH)
        self.bare, self.shared = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.shared.weight = self.bare.weight

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.shared(self.bare(self.fc(x.abs()).clamp(-1, 1)))
        logits = self.head(x)
        back = self.back(logits)
        return {
            "labels": functional.cross_entropy(logits, labels),
            "weighted": functional.cross_entropy(logits, labels.relu(), logits.new_tensor(WEIGHTS)),
            "squares": functional.mse_loss(back, x),
            "smooth": functional.smooth_l1_loss(back, x, beta=0.5),
        }


def right_labels(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return F.cross_entropy(logits, labels)


def ignored_counted(logits: jax.Array, labels: jax.Array) -> jax.Array:
    losses = F.cross_entropy(logits, labels, reduction="none")
    return jnp.where(labels < 0, 0, losses).mean()


def right_weighted(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return F.cross_entropy(logits, labels, jnp.array(WEIGHTS, logits.dtype))


def weighted_mean(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return F.cross_entropy(logits, labels, jnp.array(WEIGHTS, logits.dtype), reduction="none").mean()


def unweighted(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return F.cross_entropy(logits, labels)


class FlaxScore(nnx.Module):
    """The same."""

    def __init__(
        self,
        *,
        labels: Callable[..., jax.Array] = right_labels,
        weighted: Callable[..., jax.Array] = right_weighted,
        squares: float = 1.0,
        huber: bool = False,
        absolute: Callable[[jax.Array], jax.Array] = absolute,
        tied: bool = True,
        bias: bool = True,
        more: bool = False,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.fc, self.head = nnx.Linear(WIDTH, WIDTH, use_bias=bias, rngs=rngs), nnx.Linear(WIDTH, CLASSES, rngs=rngs)
        self.back = nnx.Linear(CLASSES, WIDTH, rngs=rngs)
        self.bare, self.shared = (nnx.Linear(WIDTH, WIDTH, use_bias=b, rngs=rngs) for b in (more, False))
        if tied:
            self.shared.kernel = self.bare.kernel
        self.labels, self.weighted, self.squares, self.huber = labels, weighted, squares, huber
        self.absolute = absolute

    def __call__(self, x: jax.Array, labels: jax.Array) -> dict[str, Any]:
        x = self.shared(self.bare(jnp.clip(self.fc(self.absolute(x)), -1, 1)))
        logits = self.head(x)
        back = self.back(logits)
        smooth = F.huber_loss(back, x, delta=0.5) if self.huber else F.smooth_l1_loss(back, x, beta=0.5)
        return {
            "labels": self.labels(logits, labels),
            "weighted": self.weighted(logits, jnp.maximum(labels, 0)),
            "squares": self.squares * F.mse_loss(back, x),
            "smooth": smooth,
        }


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    x = drawn(7, WIDTH)
    return torch.where(x.abs() < 0.3, 0, x), torch.tensor([0, 3, -100, 4, 1, 2, 3])


SCORE = Twin("Score", Score, FlaxScore, samples)

FAULTS = (
    Fault("ignored labels counted", SCORE, "", ("ignored-labels-counted",), {"labels": ignored_counted}),
    Fault("class weights not in the mean", SCORE, "", ("class-weights-not-in-mean",), {"weighted": weighted_mean}),
    Fault("class weights missing", SCORE, "", ("class-weights-missing",), {"weighted": unweighted}),
    Fault("half of the squared error", SCORE, "", ("half-squared-error",), {"squares": 0.5}),
    Fault("Huber for smooth L1", SCORE, "", ("huber-for-smooth-l1",), {"huber": True}),
    Fault("gradient at a kink", SCORE, "", ("gradient-at-a-kink",), {"absolute": jnp.abs}),
    Fault("bias left out", SCORE, "fc", ("bias-missing",), {"bias": False}),
    Fault("bias more than torch's", SCORE, "bare", ("bias-added",), {"more": True}),
    Fault("weights untied", SCORE, "shared", ("weights-untied",), {"tied": False}),
)
