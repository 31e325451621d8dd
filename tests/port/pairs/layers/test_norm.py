"""torch.nn.LayerNorm, RMSNorm, GroupNorm, InstanceNorm1d to 3d and what they are paired with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen as flax_linen
from flax import nnx
from torch import nn

from port.pairs import twin_pair

TOLERANCE = 1e-11
VISIBLE = 1e-3  # what a planted fault exceeds


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(1, 2, shape))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer": (lambda: nn.LayerNorm(6), (4, 6)),
    "layer, more axes": (lambda: nn.LayerNorm(6, eps=1e-2), (4, 3, 6)),
    "layer, no bias": (lambda: nn.LayerNorm(6, bias=False), (4, 3, 6)),
    "layer, not affine": (lambda: nn.LayerNorm(6, elementwise_affine=False), (4, 3, 6)),
    "layer, over several axes": (lambda: nn.LayerNorm((3, 6)), (2, 4, 3, 6)),
    "layer, over everything": (lambda: nn.LayerNorm((3, 6), bias=False), (3, 6)),
    "layer, over several axes, not affine": (lambda: nn.LayerNorm((3, 6), elementwise_affine=False), (2, 3, 6)),
    "rms": (lambda: nn.RMSNorm(6), (4, 3, 6)),
    "rms, eps": (lambda: nn.RMSNorm(6, eps=1e-2), (4, 3, 6)),
    "rms, eps, not affine": (lambda: nn.RMSNorm(6, eps=1e-2, elementwise_affine=False), (4, 6)),
    "rms, over several axes": (lambda: nn.RMSNorm((3, 6), eps=1e-2), (2, 4, 3, 6)),
    "rms, over several axes, not affine": (lambda: nn.RMSNorm((3, 6), elementwise_affine=False), (4, 3, 6)),
    "group": (lambda: nn.GroupNorm(3, 6), (2, 6, 4, 3)),
    "group, of one channel": (lambda: nn.GroupNorm(6, 6, eps=1e-2), (2, 6, 4)),
    "group, one": (lambda: nn.GroupNorm(1, 6), (2, 6, 4, 3, 2)),
    "group, no axes": (lambda: nn.GroupNorm(2, 6), (3, 6)),
    "group, not affine": (lambda: nn.GroupNorm(3, 6, affine=False), (2, 6, 4, 3)),
    "instance1d": (lambda: nn.InstanceNorm1d(3), (2, 3, 7)),
    "instance1d, no batch": (lambda: nn.InstanceNorm1d(3, affine=True), (3, 7)),
    "instance2d, affine": (lambda: nn.InstanceNorm2d(3, affine=True, eps=1e-2), (2, 3, 5, 4)),
    "instance2d, no batch": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (3, 5, 4)),
    "instance2d, running statistics": (
        lambda: nn.InstanceNorm2d(3, momentum=0.3, affine=True, track_running_stats=True),
        (2, 3, 5, 4),
    ),
    "instance3d, statistics that stay": (
        lambda: nn.InstanceNorm3d(3, momentum=None, track_running_stats=True),
        (2, 3, 2, 3, 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(3)
def test_W10_the_twin_computes_the_same_with_the_same_gradients(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    both = sides(make())
    both.check_weights()
    # Only running statistics change from step to step.
    steps = 3 if "statistics" in name else 1
    assert both.difference(random(*shape), steps=steps) < TOLERANCE


@pytest.mark.parametrize("name", ["layer", "rms, eps", "group", "instance2d, affine"])
def test_W10_an_epsilon_of_flaxs_is_seen(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    both = sides(make())
    setattr(both.twin, "epsilon" if hasattr(both.twin, "epsilon") else "eps", 1e-6)
    assert both.difference(random(*shape) * 1e-3, steps=1) > VISIBLE


@pytest.mark.parametrize("name", ["layer", "group"])
@pytest.mark.parametrize(("fast", "agrees"), [(False, True), (True, False)])
def test_W11_an_input_far_from_zero_needs_two_passes(name: str, fast: bool, agrees: bool, sides: Any) -> None:
    make, shape = CASES[name]
    both = sides(make(), attributes={"use_fast_variance": fast})
    x = random(*shape) + 1e6
    expected = both.layer(x).detach().numpy()
    axis = both.pair.channels if both.pair.channels is not None else -1
    y = jnp.moveaxis(both.twin(jnp.moveaxis(jnp.asarray(x.numpy()), axis, -1)), -1, axis)
    difference = np.abs(y - expected).max()
    assert difference < 1e-8 if agrees else difference > 1e-6


def test_flaxs_own_layer_is_the_twin_where_it_is_exact() -> None:
    assert twin_pair(nn.LayerNorm(6)).flax == "flax.nnx.LayerNorm"
    assert twin_pair(nn.LayerNorm((3, 6))).flax == "port.nn.LayerNorm"
    assert twin_pair(nn.RMSNorm(6, eps=1e-6)).flax == "flax.nnx.RMSNorm"
    assert twin_pair(nn.RMSNorm(6)).flax == "port.nn.RMSNorm"


@pytest.mark.parametrize("fault", ["momentum", "eps"])
def test_W8_an_instance_norm_that_differs_in_one_number_is_seen(fault: str, sides: Any) -> None:
    make, shape = CASES["instance2d, running statistics"]
    both = sides(make(), attributes={fault: {"momentum": 0.7, "eps": 1e-1}[fault]})
    assert both.difference(random(*shape)) > VISIBLE


# %% Written apart


@pytest.mark.parametrize("name", ["rms", "rms, eps"])
def test_flaxs_rms_norm(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    epsilon = 1e-2 if name == "rms, eps" else float(np.finfo(np.float64).eps)
    twin = partial(nnx.RMSNorm, 6, epsilon=epsilon, param_dtype=jnp.float64)
    if name == "rms":
        both = sides(make(), flax=("flax.nnx.RMSNorm", twin))
        assert both.difference(random(*shape), steps=1) < TOLERANCE
    else:
        assert twin_pair(make()).flax == "flax.nnx.RMSNorm"


def test_flaxs_instance_norm_is_torchs_for_a_batch(sides: Any) -> None:
    make, shape = CASES["instance2d, affine"]
    options = {"epsilon": 1e-2, "use_fast_variance": False, "param_dtype": jnp.float64}
    both = sides(make(), flax=("flax.nnx.InstanceNorm", partial(nnx.InstanceNorm, 3, **options)))
    assert both.difference(random(*shape), steps=1) < TOLERANCE
    assert both.difference(random(*shape)[0], steps=1) > VISIBLE  # takes the first axis for the batch


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("layer", partial(flax_linen.LayerNorm, epsilon=1e-5)),
        ("rms", partial(flax_linen.RMSNorm, epsilon=float(np.finfo(np.float64).eps))),
        ("group", partial(flax_linen.GroupNorm, 3, epsilon=1e-5)),
        ("instance2d, affine", partial(flax_linen.InstanceNorm, epsilon=1e-2)),
    ],
)
def test_linens_norms(name: str, module: Any, sides: Any, linen: Any) -> None:
    make, shape = CASES[name]
    both = sides(make())
    twin = module(param_dtype=jnp.float64, use_fast_variance=False)
    x = random(*shape)
    axis = both.pair.channels if both.pair.channels is not None else -1
    y = twin.apply(linen(both.layer, twin), jnp.moveaxis(jnp.asarray(x.numpy()), axis, -1))
    np.testing.assert_allclose(jnp.moveaxis(y, -1, axis), both.layer(x).detach().numpy(), rtol=1e-9, atol=TOLERANCE)
