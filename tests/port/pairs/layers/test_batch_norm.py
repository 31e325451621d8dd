"""torch.nn.BatchNorm1d, 2d, 3d, SyncBatchNorm and what they are paired with."""

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

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(1, 2, shape))


def without(layer: nn.Module, parameter: str) -> nn.Module:
    layer.register_parameter(parameter, None)
    return layer


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.BatchNorm1d(5, eps=1e-2), (8, 5)),
    "1d, a sequence": (lambda: nn.BatchNorm1d(5), (4, 5, 6)),
    "2d": (lambda: nn.BatchNorm2d(5, momentum=0.3), (4, 5, 3, 2)),
    "2d, cumulative": (lambda: nn.BatchNorm2d(5, momentum=None), (4, 5, 3, 2)),
    "2d, no scale": (lambda: without(nn.BatchNorm2d(5), "weight"), (4, 5, 3, 2)),
    "2d, no bias": (lambda: without(nn.BatchNorm2d(5), "bias"), (4, 5, 3, 2)),
    "2d, not affine": (lambda: nn.BatchNorm2d(5, affine=False), (4, 5, 3, 2)),
    "3d, no running statistics": (lambda: nn.BatchNorm3d(3, track_running_stats=False), (3, 3, 2, 4, 2)),
    "synchronised, alone": (lambda: nn.SyncBatchNorm(5, momentum=0.3), (4, 5, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(3)
def test_W9_the_twin_computes_the_same_with_the_same_gradients(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    both = sides(make())
    both.check_weights()
    assert both.difference(random(*shape)) < TOLERANCE


@pytest.mark.parametrize("name", ["1d", "2d, cumulative", "3d, no running statistics"])
def test_a_batch_of_none_is_counted_and_changes_nothing(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    assert sides(make()).difference(random(0, *shape[1:])) < TOLERANCE


@pytest.mark.parametrize("fault", ["eps", "momentum", "num_batches_tracked"])
def test_a_twin_that_differs_in_one_number_is_seen(fault: str, sides: Any) -> None:
    make, shape = CASES["2d, cumulative" if fault == "num_batches_tracked" else "2d"]
    both = sides(make())
    if fault == "num_batches_tracked":
        both.twin.num_batches_tracked[...] = jnp.array(0)
    else:
        setattr(both.twin, fault, {"eps": 1e-1, "momentum": 0.7}[fault])
    assert both.difference(random(*shape)) > VISIBLE


# %% Written apart


@pytest.mark.parametrize(("momentum", "agrees"), [(0.7, True), (0.3, False)])
def test_W7_W8_W27_flaxs_own_agrees_in_training_but_for_the_running_variance(
    momentum: float, agrees: bool, sides: Any
) -> None:
    make, shape = CASES["2d"]
    options = {"momentum": momentum, "epsilon": 1e-5, "use_fast_variance": False, "param_dtype": jnp.float64}
    both = sides(make(), flax=("flax.nnx.BatchNorm", partial(nnx.BatchNorm, 5, **options)))
    assert both.pair.torch_only == ("num_batches_tracked",)
    for statistic in (both.twin.mean, both.twin.var):
        assert statistic.dtype == jnp.float32  # whatever param_dtype says
    for name, statistic in (("running_mean", both.twin.mean), ("running_var", both.twin.var)):
        statistic.set_value(jnp.asarray(both.state()[name]))
    before = {name: both.state()[name] for name in ("running_mean", "running_var")}
    x = random(*shape)
    expected = both.layer(x).detach().numpy()
    both.twin.train()
    y = both.twin(jnp.moveaxis(jnp.asarray(x.numpy()), 1, -1))
    np.testing.assert_allclose(jnp.moveaxis(y, -1, 1), expected, rtol=1e-10, atol=TOLERANCE)
    state, n = both.state(), x.numel() // 5
    mean_difference = np.abs(both.twin.mean[...] - state["running_mean"]).max()
    assert mean_difference < TOLERANCE if agrees else mean_difference > VISIBLE
    # torch's new share, scaled down from the unbiased to the biased variance, is Flax's.
    kept = 0.7 * before["running_var"]
    biased = kept + (state["running_var"] - kept) * (n - 1) / n
    if agrees:
        np.testing.assert_allclose(both.twin.var[...], biased, rtol=TOLERANCE)
        assert np.abs(both.twin.var[...] - state["running_var"]).max() > VISIBLE


def test_linens_evaluates_with_torchs_statistics(sides: Any, linen: Any) -> None:
    make, shape = CASES["2d"]
    layer = sides(make()).layer.eval()
    module = flax_linen.BatchNorm(use_running_average=True, epsilon=1e-5, param_dtype=jnp.float64)
    variables = linen(layer, module)
    assert set(variables) == {"params", "batch_stats"}
    x = random(*shape)
    y = module.apply(variables, jnp.moveaxis(jnp.asarray(x.numpy()), 1, -1))
    np.testing.assert_allclose(jnp.moveaxis(y, -1, 1), layer(x).detach().numpy(), rtol=1e-10, atol=TOLERANCE)
