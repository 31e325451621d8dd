"""PyTorch's initial distributions: torch's own layers and ours pass one judge, flax's own do not (W24)."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.nn import mapped, patched, redrawn, torch_bias, torch_kernel, torch_uniform

FAN_IN, FAN_OUT = 150, 400  # not square: the fans cannot be confused


def is_uniform_within(values: np.ndarray, bound: float) -> bool:
    """Whether values look drawn from U(−bound, bound): by the bound, mean, spread and ten equal shares, at 5 σ."""
    scaled = np.asarray(values, np.float64).ravel() / bound
    n = scaled.size
    assert n >= 400
    reaches_the_bound = 1 - 20 / n < np.abs(scaled).max() <= 1 + 1e-6  # short of it in one case of e²⁰
    mean_is_zero = abs(scaled.mean()) < 5 * math.sqrt(1 / 3 / n)
    spread_is_right = abs((scaled**2).mean() - 1 / 3) < 5 * math.sqrt(4 / 45 / n)
    shares = np.histogram(scaled, 10, (-1, 1))[0] / n
    shares_are_equal = np.abs(shares - 0.1).max() < 5 * math.sqrt(0.1 * 0.9 / n)
    return bool(reaches_the_bound and mean_is_zero and spread_is_right and shares_are_equal)


def torch_layer(cls: Any, *arguments: Any, **options: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return cls(*arguments, **options)


def linear(**options: Any) -> nnx.Linear:
    return nnx.Linear(FAN_IN, FAN_OUT, rngs=nnx.Rngs(0), **options)


def conv(**options: Any) -> nnx.Conv:
    return nnx.Conv(24, 400, (2, 5), feature_group_count=4, rngs=nnx.Rngs(0), **options)


CONV_FAN_IN = 24 // 4 * 2 * 5


@pytest.mark.parametrize(
    ("theirs", "ours", "fan_in"),
    [
        (lambda: torch_layer(torch.nn.Linear, FAN_IN, FAN_OUT), linear, FAN_IN),
        (lambda: torch_layer(torch.nn.Conv2d, 24, 400, (2, 5), groups=4), conv, CONV_FAN_IN),
    ],
    ids=["linear", "conv2d in groups"],
)
def test_kernel_and_bias_are_drawn_as_torch_draws_them(theirs: Any, ours: Any, fan_in: int) -> None:
    bound = 1 / math.sqrt(fan_in)
    layer = theirs()
    twin = ours(kernel_init=torch_kernel(), bias_init=torch_bias(fan_in))
    for tensor in (layer.weight, layer.bias):
        assert is_uniform_within(tensor.detach().numpy(), bound)
    for variable in (twin.kernel, twin.bias):
        assert is_uniform_within(variable[...], bound)


@pytest.mark.parametrize(
    "kernel_init",
    [
        nnx.initializers.lecun_normal(),  # flax's own
        nnx.initializers.lecun_uniform(),  # √3 too wide
        nnx.initializers.variance_scaling(1 / 3, "fan_out", "uniform"),
        nnx.initializers.variance_scaling(1 / 3, "fan_in", "normal"),  # of the right spread
        nnx.initializers.variance_scaling(1 / 3 * 1.05, "fan_in", "uniform"),
    ],
)
def test_another_distribution_is_seen(kernel_init: Any) -> None:
    assert not is_uniform_within(linear(kernel_init=kernel_init).kernel[...], 1 / math.sqrt(FAN_IN))


def test_flaxs_own_bias_is_seen() -> None:
    assert not is_uniform_within(linear().bias[...], 1 / math.sqrt(FAN_IN))
    assert not is_uniform_within(linear(bias_init=torch_bias(FAN_OUT)).bias[...], 1 / math.sqrt(FAN_IN))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_dtype_asked_for_is_drawn_in_full(dtype: str) -> None:
    with jax.enable_x64(True):
        layer = linear(kernel_init=torch_kernel(), bias_init=torch_bias(FAN_IN), param_dtype=jnp.dtype(dtype))
        for variable in (layer.kernel, layer.bias):
            values = np.asarray(variable[...])
            assert values.dtype == dtype
            assert (values != values.astype(np.float32)).any() == (dtype == "float64")


# %% Made of others

KEY = jax.random.key(3)


def test_uniform_between_two_numbers() -> None:
    values = np.asarray(torch_uniform(1.0, 4.0)(KEY, (40, 50)))
    assert is_uniform_within(values - 2.5, 1.5)
    assert not is_uniform_within(np.asarray(nnx.initializers.uniform(4.0)(KEY, (40, 50))) - 2.5, 1.5)


def test_a_function_of_what_is_drawn() -> None:
    made = mapped(lambda x: jnp.exp(x) + 1, nnx.initializers.normal(0.5))(KEY, (3, 4), jnp.float16)
    assert made.dtype == jnp.float16
    drawn = nnx.initializers.normal(0.5)(KEY, (3, 4), jnp.float16)
    assert np.array_equal(made, (jnp.exp(drawn) + 1).astype(jnp.float16))


def test_regions_are_drawn_by_others() -> None:
    initializer = patched(
        nnx.initializers.normal(1.0), (jnp.s_[2], nnx.initializers.zeros), (jnp.s_[:, 3:5], nnx.initializers.ones)
    )
    made = np.asarray(initializer(KEY, (6, 7)))
    assert (made[:, 3:5] == 1).all() and (np.delete(made[2], [3, 4]) == 0).all()
    rest = np.delete(np.delete(made, 2, 0), [3, 4], 1)
    assert len(np.unique(rest)) == rest.size


def test_regions_have_numbers_of_their_own() -> None:
    normal = nnx.initializers.normal(1.0)
    made = np.asarray(patched(normal, (jnp.s_[:3], normal), (jnp.s_[3:], normal))(KEY, (6, 7)))
    assert len(np.unique(made)) == made.size


def test_variables_of_a_layer_are_drawn_anew() -> None:
    layer = redrawn(linear(), {"bias": nnx.initializers.constant(2.0)}, rngs=nnx.Rngs(1))
    assert isinstance(layer, nnx.Linear) and (layer.bias[...] == 2).all()  # type: ignore[index]
    assert np.array_equal(layer.kernel[...], linear().kernel[...])
    listed = redrawn(nnx.Sequential(linear()), {"layers.0.kernel": nnx.initializers.ones}, rngs=nnx.Rngs(1))
    assert (listed.layers[0].kernel[...] == 1).all()
