"""Precision: rounding made large by training, and by what divides by nearly nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def losses(dtype: torch.dtype, parts: int, moved: float = 0.0, steps: int = 200) -> np.ndarray:
    """Of an MLP, whose batch is summed in so many parts; its first weights may be moved by a share of themselves."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(7, 33), nn.Tanh(), nn.Linear(33, 3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 1 + moved
    model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    found = []
    x, y = (torch.tensor(random(64, width, seed=width), dtype=dtype) for width in (7, 3))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum(
            nn.functional.mse_loss(model(x), y) / parts for x, y in zip(x.chunk(parts), y.chunk(parts), strict=True)
        )
        loss.backward()  # type: ignore[union-attr]
        optimizer.step()
        found.append(loss.item())  # type: ignore[union-attr]
    return np.array(found)


def parting(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a / b - 1).max())


@pytest.mark.sweep
def test_P3_rounding_alone_parts_float32_runs_and_not_float64_ones() -> None:
    """A batch that is summed in four parts strays as a control does, whose weights are moved in the last place."""
    whole = losses(torch.float32, 1)
    strays, control = parting(losses(torch.float32, 4), whole), parting(losses(torch.float32, 1, moved=1e-7), whole)
    assert 2e-6 < strays < 10 * control  # 1e-7 in the first step
    assert parting(losses(torch.float64, 4), losses(torch.float64, 1)) < 1e-12


def loss_before_batch_norm(x: np.ndarray, target: np.ndarray) -> Callable[..., jax.Array]:
    def loss(weight: jax.Array, bias: jax.Array) -> jax.Array:
        return jnp.square(normalised(x @ weight + bias) - target).mean()

    return loss


def normalised(x: Any) -> Any:
    centred = x - x.mean(0)
    return centred / jnp.sqrt(jnp.square(centred).mean(0) + 1e-5)


def test_P4_a_bias_before_batch_norm_has_a_gradient_of_rounding_alone(float64: None) -> None:
    """Rprop takes its sign: one update from either side's gradients, and the biases are a whole step apart."""
    x, target, start = random(8, 3), random(8, 5, seed=1), (random(3, 5, seed=2), random(5, seed=3))
    theirs = [nn.Parameter(torch.from_numpy(each.copy())) for each in start]
    h = torch.from_numpy(x) @ theirs[0] + theirs[1]
    nn.functional.mse_loss(nn.functional.batch_norm(h, None, None, training=True), torch.from_numpy(target)).backward()

    ours = [nn.Parameter(torch.from_numpy(each.copy())) for each in start]
    gradients = jax.jit(jax.grad(loss_before_batch_norm(x, target), (0, 1)))(*map(jnp.asarray, start))
    for parameter, gradient in zip(ours, gradients, strict=True):
        parameter.grad = torch.from_numpy(np.array(gradient))
    for parameters in (theirs, ours):
        assert parameters[0].grad.abs().min() > 1e-6
        assert parameters[1].grad.abs().max() < 1e-14
        torch.optim.Rprop(parameters, lr=0.1).step()
    weights, biases = ((a - b).abs().max().item() for a, b in zip(theirs, ours, strict=True))
    assert weights < 1e-12
    assert biases > 0.09


@pytest.mark.parametrize(("values", "keeps_its_digits"), [(2, False), (16, True)])
def test_P5_batch_norm_over_two_values_loses_the_gradients_digits(
    values: int, keeps_its_digits: bool, float64: None
) -> None:
    x, weight = 10 * random(values, 50), random(values, 50, seed=1)
    theirs = torch.from_numpy(x.copy()).requires_grad_()
    (torch.from_numpy(weight) * nn.functional.batch_norm(theirs, None, None, training=True)).sum().backward()
    assert theirs.grad is not None
    ours = np.asarray(jax.grad(lambda x: (weight * normalised(x)).sum())(jnp.asarray(x)))
    apart = np.abs(ours / theirs.grad.numpy() - 1)
    assert (np.median(apart) < 1e-14) == keeps_its_digits
    assert np.median(apart) < 1e-6


def test_P9_xla_flushes_subnormals_to_zero_and_torch_may(float64: None) -> None:
    x = 2.0 ** np.array([-900, -1040, -1022])  # the second is subnormal, of the third its half
    halved = 2.0 ** np.array([-901, -1041, -1023])
    assert (halved != 0).all()
    got = np.asarray(jax.jit(lambda x: x / 2)(jnp.asarray(x)))
    np.testing.assert_array_equal(got, [halved[0], 0, 0])
    np.testing.assert_array_equal(torch.from_numpy(x) / 2, halved)
    assert torch.set_flush_denormal(True)
    try:
        flushed = (torch.from_numpy(x) / 2).tolist()
    finally:
        torch.set_flush_denormal(False)
    assert flushed == got.tolist()
