"""Attention whose softmax is float32 whatever it is given: it does not hide a real fault, and the report says what to
do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
from flax import nnx
from torch import nn

import port
from port.parity import CheckReport
from port.parity.diagnose import rounding


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.attn = nn.Linear(6, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.act, self.out = nn.GELU(), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (N, L, 6)
        h = self.first(x)
        return self.out(self.act(self.attn(h, h, h, need_weights=False)[0]))


class Gelu(nnx.Module):
    def __init__(self, approximate: bool) -> None:
        self.approximate = approximate

    def __call__(self, x: jax.Array) -> jax.Array:
        return jax.nn.gelu(x, approximate=self.approximate)


class FlaxModel(nnx.Module):
    def __init__(self, *, tanh: bool = False, stop: bool = False, exact: bool = False) -> None:
        rngs = nnx.Rngs(0)
        self.first, self.out = nnx.Linear(6, 8, rngs=rngs), nnx.Linear(8, 3, rngs=rngs)
        self.attn: Any = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        if exact:
            self.attn = port.nn.MultiheadAttention(8, 2, batch_first=True, rngs=rngs)
        self.act, self.stop, self.exact = Gelu(tanh), stop, exact

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.first(x)
        h = self.attn(h, h, h)[0] if self.exact else self.attn(h)
        return self.out(self.act(jax.lax.stop_gradient(h) if self.stop else h))


def checked(ours: nnx.Module, *, theirs: Callable[[], nn.Module] = Model, **options: Any) -> CheckReport:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = theirs()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape))
        x = torch.randn(3, 5, 6)
    port.load(ours, model)
    return port.check(model, ours, x, **options)


def notes(report: CheckReport) -> str:
    return "\n".join(report.remarks)


@pytest.mark.sweep
def test_rounding_alone_is_told_with_what_to_do() -> None:
    report = checked(FlaxModel())
    assert not report, "the limit of float64 is not loosened by itself"
    assert report.first is not None
    assert report.first.layer == "attn"
    assert "attn (MultiHeadAttention) goes from float64 to float32 on the way" in notes(report)
    assert "Check again with rtol=1e-6, or use port.nn.MultiheadAttention" in notes(report)
    assert "that is rounding" not in notes(report)
    assert checked(FlaxModel(), rtol=1e-6)


@pytest.mark.sweep
def test_attention_that_stays_in_float64_agrees() -> None:
    report = checked(FlaxModel(exact=True))
    assert report, str(report)
    assert "float32" not in notes(report)


@pytest.mark.sweep
def test_a_fault_behind_rounding_is_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    report = checked(FlaxModel(tanh=True))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("act", True)
    assert "attn (MultiHeadAttention) goes from float64 to float32" in notes(report)
    assert "attn differs first in evaluation" in notes(report)
    monkeypatch.setattr(rounding, "ROUNDING", 0.0)
    hidden = checked(FlaxModel(tanh=True))
    assert hidden.first is not None
    assert hidden.first.layer == "attn", "without the rule the rounding hides it"


@pytest.mark.sweep
def test_a_stopped_gradient_behind_rounding_is_named_first() -> None:
    report = checked(FlaxModel(stop=True))
    assert report.first is not None
    assert (report.first.direction, report.first.layer) == ("backward", "attn")
    assert "as they must where the outputs do" not in str(report)
    assert "attn.in_proj_weight" in str(report)


class Plain(nn.Module):
    """Attention in the model's own code: its projections have a bias each, and the keys' has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (N, L, 6)
        split = [f(x).unflatten(-1, (2, 3)).transpose(1, 2) for f in (self.query, self.key, self.value)]
        return self.out(nn.functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))


class FlaxPlain(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.query, self.key, self.value, self.out = (nnx.Linear(6, 6, rngs=rngs) for _ in range(4))

    def __call__(self, x: jax.Array) -> jax.Array:
        split = [f(x).reshape(*x.shape[:2], 2, 3) for f in (self.query, self.key, self.value)]
        return self.out(jax.nn.dot_product_attention(*split).reshape(x.shape))


@pytest.mark.sweep
def test_a_gradient_of_rounding_alone_is_no_fault() -> None:
    report = checked(FlaxPlain(), theirs=Plain)
    assert report.first is not None
    assert (report.first.direction, report.first.layer, report.first.itself) == ("forward", "out", False)
    assert "Flax's model goes from float64 to float32 on the way" in notes(report)
    assert notes(report).endswith("rtol=1e-6"), "no layer of Flax's is there to be replaced"
    again = checked(FlaxPlain(), theirs=Plain, rtol=1e-6)
    assert again, str(again)


@pytest.mark.sweep
def test_a_layer_that_is_wrong_by_more_than_rounding_stays_the_first() -> None:
    ours = FlaxModel(tanh=True)
    ours.attn.num_heads, ours.attn.head_dim = 2, 4
    scale = ours.attn.attention_fn
    ours.attn.attention_fn = lambda q, k, v, **options: scale(1.01 * q, k, v, **options)
    report = checked(ours)
    assert report.first is not None
    assert report.first.layer == "attn"


@pytest.mark.sweep
def test_a_layer_that_stays_in_float64_is_not_passed_over() -> None:
    """A small fault of a layer's own is none of rounding, where the layer goes through no float32."""
    ours = FlaxModel(tanh=True, exact=True)
    first = ours.first
    first.dot_general = lambda *given, **options: (1 + 1e-8) * jax.lax.dot_general(*given, **options)
    report = checked(ours)
    assert report.first is not None
    assert report.first.layer == "first"
