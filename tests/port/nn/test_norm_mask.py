"""port.nn.BatchNorm with a mask against torch.nn.BatchNorm of what the mask leaves: the batch without its padding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import BatchNorm

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run

TOLERANCE = 1e-12
VISIBLE = 1e-4  # what a planted fault exceeds
CHANNELS = 5
STEPS = 3

Arrays = dict[str, np.ndarray]
# Not optimised: these tests compile far more than they compute.
jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Neither centred nor of unit scale, and each channel, the last axis, of its own mean."""
    generator = np.random.default_rng(seed)
    return generator.normal(3, 2, shape) + generator.normal(size=shape[-1])


def torch_norm(**options: Any) -> torch.nn.BatchNorm1d:
    norm = torch.nn.BatchNorm1d(CHANNELS, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.from_numpy(np.random.default_rng(7).normal(1, 1, CHANNELS)))
    return norm


def twin_of(norm: torch.nn.BatchNorm1d, cls: type[BatchNorm] = BatchNorm, **options: Any) -> BatchNorm:
    chosen: dict[str, Any] = {"momentum": norm.momentum, "track_running_stats": norm.track_running_stats}
    twin = cls(CHANNELS, param_dtype=jnp.float64, **(chosen | options))
    twin.scale[...], twin.bias[...] = (jnp.asarray(p.detach().numpy()) for p in (norm.weight, norm.bias))
    return twin


def run_torch(norm: torch.nn.BatchNorm1d, batches: list[tuple[np.ndarray, np.ndarray]]) -> Arrays:
    """Torch sees the True positions alone, each a sample of BatchNorm1d: outputs and gradients there, 0 elsewhere."""
    seen: Arrays = {}
    for step, (array, mask) in enumerate(batches):
        real = np.broadcast_to(mask, array.shape)[..., 0]
        x = torch.from_numpy(array[real]).requires_grad_()
        norm.zero_grad()
        y = norm(x)
        y.backward(torch.from_numpy(cotangent(array.shape)[real]))
        for name, values in (("output", y.detach()), ("gradient of x", x.grad)):
            seen[f"{step}: {name}"] = np.zeros(array.shape)
            seen[f"{step}: {name}"][real] = values.numpy()
        for name, parameter in (("scale", norm.weight), ("bias", norm.bias)):
            seen[f"{step}: gradient of {name}"] = parameter.grad.numpy().copy()
        names = {"running_mean": "mean", "running_var": "var", "num_batches_tracked": "num_batches_tracked"}
        seen |= {f"{step}: {names[name]}": buffer.numpy().copy() for name, buffer in norm.named_buffers()}
    return seen


def run_port(norm: BatchNorm, batches: list[tuple[np.ndarray, np.ndarray]], replicas: int = 0) -> Arrays:
    """The whole of every batch, of which the loss leaves out what is masked off."""
    seen: Arrays = {}
    graphdef, params, buffers = nnx.split(norm, nnx.Param, ...)

    def call(params: Any, x: jax.Array, buffers: Any, mask: jax.Array) -> tuple[jax.Array, Any]:
        norm = nnx.merge(graphdef, params, buffers, copy=True)
        return norm(x, mask=mask), nnx.state(norm, nnx.Not(nnx.Param))

    @jit
    def step(params: Any, x: jax.Array, buffers: Any, mask: jax.Array) -> tuple[Any, ...]:
        def masked(params: Any, x: jax.Array) -> tuple[jax.Array, Any]:
            if not replicas:
                y, after = call(params, x, buffers, mask)
            else:
                parts = [array.reshape(replicas, -1, *array.shape[1:]) for array in (x, mask)]
                axes = (None, 0, None, 0)
                y, after = jax.vmap(call, axes, axis_name="replicas")(params, parts[0], buffers, parts[1])
                y, after = y.reshape(x.shape), jax.tree.map(lambda leaf: leaf[1], after)
            return jnp.where(mask, y, 0), after

        y, pull_back, after = jax.vjp(masked, params, x, has_aux=True)
        return y, *pull_back(jnp.asarray(cotangent(y.shape))), after

    for number, (x, mask) in enumerate(batches):
        y, of_params, of_x, buffers = step(params, jnp.asarray(x), buffers, jnp.asarray(mask))
        seen |= {f"{number}: output": np.asarray(y), f"{number}: gradient of x": np.asarray(of_x)}
        seen |= {f"{number}: gradient of {name}": np.asarray(leaf[...]) for name, leaf in of_params.items()}
        seen |= {f"{number}: {name}": np.asarray(leaf[...]) for name, leaf in buffers.items()}
    return seen


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    return random(*shape, seed=99)


def largest(a: Arrays, b: Arrays) -> float:
    assert set(a) == set(b)
    assert all(a[name].shape == b[name].shape for name in a)
    return max(float(np.abs(a[name] - b[name]).max() / max(1, np.abs(a[name]).max())) for name in a)


def some_of(*shape: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches whose samples are kept or not, (N, 1, …, 1); at least three of them are."""
    batches = []
    for step in range(STEPS):
        mask = np.random.default_rng(50 + step).random((shape[0], *(1 for _ in shape[1:]))) < 0.5
        mask[[0, 2, 3]] = True
        mask[1] = False
        batches.append((random(*shape, seed=step), mask))
    return batches


@pytest.mark.parametrize(
    "options", [{}, {"momentum": None}, {"momentum": 0.37}, {"track_running_stats": False}], ids=str
)
@pytest.mark.parametrize("shape", [(9, CHANNELS), (7, 3, 2, CHANNELS)], ids=str)
def test_it_trains_as_torch_on_what_is_left(shape: tuple[int, ...], options: dict[str, Any], float64: None) -> None:
    norm = torch_norm(**options)
    twin = twin_of(norm)
    batches = some_of(*shape)
    assert largest(run_torch(norm, batches), run_port(twin, batches)) < TOLERANCE


def test_positions_may_be_masked_off_as_well(float64: None) -> None:
    """Sequences of unequal lengths: (N, L, 1)."""
    norm, lengths = torch_norm(), np.array([6, 2, 4, 0])
    batches = [(random(4, 6, CHANNELS), (np.arange(6) < lengths[:, None])[..., None])]
    twin = twin_of(norm)
    assert largest(run_torch(norm, batches), run_port(twin, batches)) < TOLERANCE


def test_each_channel_may_have_its_own_mask(float64: None) -> None:
    x = random(9, CHANNELS)
    mask = np.random.default_rng(3).random(x.shape) < 0.6
    assert len(set(mask.sum(0))) > 1
    twin = twin_of(torch_norm())
    seen = run_port(twin, [(x, mask)])
    for channel in range(CHANNELS):
        real = x[mask[:, channel], channel]
        assert abs(seen["0: mean"][channel] - 0.1 * real.mean()) < TOLERANCE
        assert abs(seen["0: var"][channel] - (0.9 + 0.1 * real.var(ddof=1))) < TOLERANCE


# %% Replicas


@pytest.mark.parametrize("kept", [[4, 1, 2], [4, 4, 0], [1, 1, 0]], ids=str)
def test_replicas_of_unequal_numbers_have_the_statistics_of_the_union(kept: list[int], float64: None) -> None:
    """As torch's SyncBatchNorm, which weighs each replica by its samples."""
    mask = (np.arange(4) < np.array(kept)[:, None]).reshape(12, 1, 1)
    batches = [(random(12, 3, CHANNELS, seed=step), mask) for step in range(STEPS)]
    norm = torch_norm()
    synchronised, alone, unweighted = (
        twin_of(norm, cls, axis_name=name)
        for cls, name in ((BatchNorm, "replicas"), (BatchNorm, None), (MeanOfMeans, "replicas"))
    )
    expected = run_torch(norm, batches)
    assert largest(expected, run_port(synchronised, batches, replicas=3)) < TOLERANCE
    assert largest(expected, run_port(alone, batches, replicas=3)) > VISIBLE
    assert largest(expected, run_port(unweighted, batches, replicas=3)) > VISIBLE


def test_replicas_of_one_position_each_have_a_variance(float64: None) -> None:
    mask = (np.arange(4) < 1).repeat(3).reshape(4, 3).T.reshape(12, 1)
    batches = [(random(12, CHANNELS), mask)]
    norm = torch_norm()
    twin = twin_of(norm, axis_name="replicas")
    assert largest(run_torch(norm, batches), run_port(twin, batches, replicas=3)) < TOLERANCE


# %% Planted faults


class MeanOfMeans(BatchNorm):
    """Averages the replicas' own statistics, as flax does, however many samples each has."""

    def _masked_statistics(self, x: jax.Array, axis: int, mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        name, self.axis_name = self.axis_name, None
        mean, var, counts = super()._masked_statistics(x, axis, mask)
        self.axis_name = name
        mean, var = jax.lax.pmean((mean, var), name)
        return mean, var, jax.lax.psum(counts, name)


class MaskForgotten(BatchNorm):
    def _masked_statistics(self, x: jax.Array, axis: int, mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return super()._masked_statistics(x, axis, jnp.ones_like(mask))


class CountOfAll(BatchNorm):
    """Zeroes what is masked off, and counts it."""

    def _masked_statistics(self, x: jax.Array, axis: int, mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return super()._masked_statistics(jnp.where(mask, x, 0), axis, jnp.ones_like(mask))


class BiasedByAll(BatchNorm):
    """Takes n / (n − 1) of all positions for the running variance."""

    def _masked_statistics(self, x: jax.Array, axis: int, mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        mean, var, counts = super()._masked_statistics(x, axis, mask)
        return mean, var, jnp.full_like(counts, x.size // x.shape[axis])


@pytest.mark.parametrize("fault", [MaskForgotten, CountOfAll, BiasedByAll])
def test_a_plausible_fault_is_seen(fault: type[BatchNorm], float64: None) -> None:
    norm, batches = torch_norm(), some_of(7, 3, 2, CHANNELS)
    twin = twin_of(norm, fault)
    assert largest(run_torch(norm, batches), run_port(twin, batches)) > VISIBLE


# %% A mask that leaves nothing out, hardly anything, or nothing at all


def test_a_mask_of_all_is_no_mask(float64: None) -> None:
    x = jnp.asarray(random(8, 3, CHANNELS))
    masked, plain = (twin_of(torch_norm()) for _ in range(2))
    y = masked(x, mask=jnp.ones((8, 1, 1), bool))
    np.testing.assert_allclose(y, plain(x), rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(masked.var[...], plain.var[...], rtol=TOLERANCE)
    assert np.abs(y - twin_of(torch_norm())(x, mask=jnp.arange(8)[:, None, None] < 7)).max() > VISIBLE


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("eps", [1e-5, 0.0])
@pytest.mark.thin(4)
def test_too_few_positions_change_no_statistics_and_make_no_nan(count: int, eps: float) -> None:
    """Through eight layers, whose padding may not grow without bound either."""
    norms = nnx.List([BatchNorm(CHANNELS, eps=eps) for _ in range(8)])
    mask = jnp.arange(8)[:, None] < count

    @jit
    def step(state: Any, x: jax.Array) -> tuple[Any, ...]:
        def loss(params: Any, x: jax.Array) -> tuple[jax.Array, Any]:
            layers = nnx.merge(graphdef, params, rest, copy=True)
            for norm in layers:
                x = norm(x * 1e3, mask=mask) if count else norm(x, mask=mask)
            return jnp.where(mask, jnp.square(x - 1), 0).sum(), nnx.state(layers, nnx.BatchStat)

        params, rest = state
        (value, after), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(params, x)
        return value, gradients, after

    graphdef, *state = nnx.split(norms, nnx.Param, ...)
    value, gradients, after = step(state, jnp.asarray(random(8, CHANNELS), jnp.float32))
    assert np.isfinite(value)
    for gradient in jax.tree.leaves(gradients):
        assert np.isfinite(gradient).all()
    assert (np.asarray(gradients[1])[count:] == 0).all()
    for norm in nnx.merge(graphdef, state[0], after):
        assert norm.num_batches_tracked[...] == 1
        assert (norm.mean[...] == 0).all()
        assert (norm.var[...] == 1).all()


def test_what_is_masked_off_may_be_huge(float64: None) -> None:
    """Its square is infinite."""
    x = jnp.asarray(random(8, CHANNELS))
    real = jnp.arange(8)[:, None] < 5

    @jit
    @partial(jax.value_and_grad, has_aux=True)
    def run(x: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        norm = twin_of(torch_norm())
        y = norm(x, mask=mask)[:5]
        return (y * cotangent(y.shape)).sum(), norm.var[...]

    padded = jnp.where(real, x, 1e200)
    (value, var), gradient = run(padded, real)
    (expected, expected_var), expected_gradient = run(x, real)
    np.testing.assert_allclose(value, expected, rtol=TOLERANCE)
    np.testing.assert_allclose(var, expected_var, rtol=TOLERANCE)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=TOLERANCE)
    assert not np.isfinite(run(padded, jnp.ones_like(real))[0][1]).any(), "were it not for the mask"


def test_evaluation_needs_no_mask(float64: None) -> None:
    x = jnp.asarray(random(8, CHANNELS))
    norm = twin_of(torch_norm())
    norm.eval()
    mask = jnp.arange(8)[:, None] < 5
    np.testing.assert_array_equal(norm(x, mask=mask), norm(x))
    by_batch = twin_of(torch_norm(), track_running_stats=False, use_running_average=True)
    expected = by_batch(x[:5])
    np.testing.assert_allclose(by_batch(x, mask=mask)[:5], expected, rtol=0, atol=TOLERANCE)
    assert np.abs(by_batch(x)[:5] - expected).max() > VISIBLE


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_takes_its_statistics_in_float32(half: str) -> None:
    x = jnp.asarray(random(64, CHANNELS), half)
    norm = BatchNorm(CHANNELS)
    y = norm(x, mask=jnp.arange(64)[:, None] < 40)
    assert y.dtype == half
    assert norm.mean.dtype == jnp.float32
    np.testing.assert_allclose(norm.mean[...], 0.1 * np.asarray(x[:40]).astype(np.float64).mean(0), rtol=2e-6)
    in_half = 0.1 * np.asarray(x[:40].mean(0)).astype(np.float32)
    assert np.abs(norm.mean[...] / in_half - 1).max() > 2e-5


@pytest.mark.parametrize(
    "mask",
    [
        lambda x: jnp.ones(len(x), bool),
        lambda x: jnp.ones((1, *x.shape), bool),
        lambda x: jnp.ones((2, 1, 1), bool),
        lambda x: jnp.ones((len(x), 1, 1)),
    ],
)
def test_other_masks_are_refused(mask: Callable[[jax.Array], jax.Array]) -> None:
    x = jnp.asarray(random(8, 3, CHANNELS), jnp.float32)
    norm = BatchNorm(CHANNELS)
    with pytest.raises(UsageError, match="a mask must be bool and broadcast to"):
        norm(x, mask=mask(x))
    assert norm.num_batches_tracked[...] == 0
