"""port.nn.BatchNorm against torch.nn.BatchNorm1d, 2d and 3d: training, evaluation, and JAX's transformations."""

from __future__ import annotations

from collections.abc import Iterator
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

TOLERANCE = 1e-12
VISIBLE = 1e-4  # what a planted fault exceeds
CHANNELS = 5
STEPS = 3

Arrays = dict[str, np.ndarray]


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Neither centred nor of unit scale, and each channel of its own mean."""
    generator = np.random.default_rng(seed)
    return generator.normal(3, 2, shape) + generator.normal(size=(shape[1], *(1 for _ in shape[2:])))


# %% Several steps of training, then evaluation: everything that comes out, on either side


def torch_norm(x: np.ndarray, **options: Any) -> torch.nn.Module:
    """The class for an input's axes, with random scale and shift. ``use_scale=False`` leaves the scale out."""
    classes = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}
    use_scale = options.pop("use_scale", True)
    norm = classes[x.ndim](x.shape[1], dtype=torch.float64, **options)
    if not use_scale:
        norm.register_parameter("weight", None)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.from_numpy(np.random.default_rng(7).normal(1, 1, parameter.shape)))
    return norm


def port_norm(norm: torch.nn.Module, cls: type[BatchNorm] = BatchNorm, **faults: Any) -> BatchNorm:
    options: dict[str, Any] = {
        "eps": norm.eps,
        "momentum": norm.momentum,
        "use_scale": norm.weight is not None,
        "use_bias": norm.bias is not None,
        "track_running_stats": norm.track_running_stats,
        "param_dtype": jnp.float64,
    }
    twin = cls(norm.num_features, **(options | faults))
    for ours, theirs in ((twin.scale, norm.weight), (twin.bias, norm.bias)):
        if ours is not None:
            ours[...] = jnp.array(theirs.detach().numpy())
    return twin


def run_torch(norm: torch.nn.Module, xs: list[np.ndarray]) -> Arrays:
    seen: Arrays = {}
    for step, array in enumerate([*xs, xs[0]]):
        norm.train(step < len(xs))
        x = torch.from_numpy(array).requires_grad_()
        norm.zero_grad()
        y = norm(x)
        y.backward(torch.from_numpy(random(*y.shape, seed=99)))
        seen |= {f"{step}: output": y.detach().numpy(), f"{step}: gradient of x": x.grad.numpy()}
        names = {"weight": "scale", "bias": "bias"}
        seen |= {f"{step}: gradient of {names[n]}": p.grad.numpy().copy() for n, p in norm.named_parameters()}
        names = {"running_mean": "mean", "running_var": "var", "num_batches_tracked": "num_batches_tracked"}
        seen |= {f"{step}: {names[name]}": buffer.numpy().copy() for name, buffer in norm.named_buffers()}
    return seen


def run_port(norm: BatchNorm, xs: list[np.ndarray]) -> Arrays:
    seen: Arrays = {}
    for step, array in enumerate([*xs, xs[0]]):
        (norm.train if step < len(xs) else norm.eval)()
        graphdef, params, buffers = nnx.split(norm, nnx.Param, ...)
        y, of_params, of_x, buffers = one_step(graphdef, params, buffers, array)
        nnx.update(norm, buffers)
        seen |= {f"{step}: output": np.asarray(y), f"{step}: gradient of x": np.asarray(of_x)}
        seen |= {f"{step}: gradient of {name}": np.asarray(leaf[...]) for name, leaf in of_params.items()}
        seen |= {f"{step}: {name}": np.asarray(leaf[...]) for name, leaf in buffers.items()}
    return seen


# Not optimised: these tests compile far more than they compute.
@partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})
def one_step(graphdef: Any, params: nnx.State, buffers: nnx.State, x: jax.Array) -> tuple[Any, ...]:
    """Channels first outside, as torch has them: output, gradients, and the buffers afterwards."""

    def call(params: nnx.State, x: jax.Array) -> tuple[jax.Array, nnx.State]:
        norm = nnx.merge(graphdef, params, buffers, copy=True)
        y = jnp.moveaxis(norm(jnp.moveaxis(x, 1, -1)), -1, 1)
        return y, nnx.state(norm, nnx.Not(nnx.Param))

    y, pull_back, buffers = jax.vjp(call, params, x, has_aux=True)
    return y, *pull_back(jnp.asarray(random(*y.shape, seed=99))), buffers


@nnx.jit
def call(norm: Any, x: jax.Array) -> jax.Array:
    """``norm(x)``, with one compilation instead of one an operation."""
    return norm(x)


def largest(a: Arrays, b: Arrays) -> float:
    assert set(a) == set(b)
    assert all(a[name].shape == b[name].shape for name in a)
    return max(float(np.abs(a[name] - b[name]).max() / max(1, np.abs(a[name]).max())) for name in a)


def batches(*shape: int) -> list[np.ndarray]:
    return [random(*shape, seed=step) for step in range(STEPS)]


SHAPES = [(8, CHANNELS), (4, CHANNELS, 6), (4, CHANNELS, 3, 2), (3, CHANNELS, 2, 3, 2)]
OPTIONS: list[dict[str, Any]] = [
    {"momentum": 0.37},
    {"momentum": None},
    {"momentum": 0.0},
    {"eps": 1e-2},
    {"affine": False},
    {"use_scale": False},
    {"track_running_stats": False},
    {"track_running_stats": False, "affine": False, "momentum": None},
]


@pytest.mark.parametrize(
    ("shape", "options"), [*((shape, {}) for shape in SHAPES), *((SHAPES[2], options) for options in OPTIONS)], ids=str
)
@pytest.mark.thin(3)
def test_it_trains_and_evaluates_as_torch(shape: tuple[int, ...], options: dict[str, Any], float64: None) -> None:
    xs = batches(*shape)
    norm = torch_norm(xs[0], **options)
    twin = port_norm(norm)
    assert largest(run_torch(norm, xs), run_port(twin, xs)) < TOLERANCE
    if norm.track_running_stats:
        assert twin.num_batches_tracked[...] == STEPS


# %% Planted faults, each a plausible BatchNorm


class Biased(BatchNorm):
    """Stores the biased variance (W8)."""

    def _batch_statistics(self, x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, int]:
        mean, var, _ = super()._batch_statistics(x, axis)
        return mean, var, 10**15


class UnbiasedOutput(BatchNorm):
    """Normalises with the unbiased variance too."""

    def _batch_statistics(self, x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, int]:
        mean, var, count = super()._batch_statistics(x, axis)
        return mean, var * count / (count - 1), count


class OnePass(BatchNorm):
    """Takes the variance as E[x²] − E[x]² (W11)."""

    def _batch_statistics(self, x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, int]:
        mean, _, count = super()._batch_statistics(x, axis)
        others = tuple(a for a in range(x.ndim) if a != axis)
        return mean, jnp.square(x).mean(others) - jnp.square(mean), count


class NoGradientThroughStatistics(BatchNorm):
    def _batch_statistics(self, x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, int]:
        return super()._batch_statistics(jax.lax.stop_gradient(x), axis)


@pytest.mark.parametrize(
    ("cls", "faults"),
    [
        (Biased, {}),
        (UnbiasedOutput, {}),
        (NoGradientThroughStatistics, {}),
        (BatchNorm, {"momentum": 1 - 0.1}),
        (BatchNorm, {"momentum": None}),
        (BatchNorm, {"eps": 1e-3}),
    ],
)
def test_a_plausible_fault_is_seen(cls: type[BatchNorm], faults: dict[str, Any], float64: None) -> None:
    xs = batches(*SHAPES[2])
    norm = torch_norm(xs[0])
    assert largest(run_torch(norm, xs), run_port(port_norm(norm, cls, **faults), xs)) > VISIBLE


@pytest.mark.parametrize(("dtype", "mean"), [(jnp.float32, 1e3), (jnp.float64, 1e6)])
def test_the_variance_takes_two_passes(dtype: Any, mean: float, float64: None) -> None:
    """W11: an input far from zero loses the variance in E[x²] − E[x]²."""
    x = random(64, CHANNELS) + mean
    expected = torch_norm(x, affine=False)(torch.from_numpy(x)).numpy()

    def error(norm: Any) -> float:
        return float(np.abs(np.asarray(call(norm, jnp.asarray(x, dtype))) - expected).max())

    options: dict[str, Any] = {"use_scale": False, "use_bias": False, "param_dtype": dtype}
    assert error(BatchNorm(CHANNELS, **options)) < 2e-4
    assert error(OnePass(CHANNELS, **options)) > 100 * error(BatchNorm(CHANNELS, **options))
    if dtype == jnp.float32:
        flaxs = nnx.BatchNorm(CHANNELS, rngs=nnx.Rngs(0), **options)
        assert error(flaxs) > 100 * error(BatchNorm(CHANNELS, **options))


def test_flaxs_own_stores_another_variance() -> None:
    """W7, W8: two values, 1 and 3: torch's running variance is 0.9 + 0.1 · 2, flax's 0.9 + 0.1 · 1."""
    x = jnp.array([[1.0], [3.0]])
    ours, flaxs = BatchNorm(1), nnx.BatchNorm(1, momentum=0.9, rngs=nnx.Rngs(0))
    call(ours, x)
    call(flaxs, x)
    assert float(ours.var[0]) == pytest.approx(1.1, abs=1e-6)
    assert float(flaxs.var[0]) == pytest.approx(1.0, abs=1e-6)
    assert float(ours.mean[0]) == pytest.approx(float(flaxs.mean[0]), abs=1e-6) == pytest.approx(0.2, abs=1e-6)


# %% Dtypes


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("params", ["float32", "half"])
def test_half_precision_keeps_its_dtype_and_exact_statistics(half: str, params: str, training: bool) -> None:
    param_dtype = half if params == "half" else "float32"
    values = random(64, CHANNELS)
    theirs = torch.nn.BatchNorm1d(CHANNELS, dtype=getattr(torch, param_dtype)).train(training)
    ours = BatchNorm(CHANNELS, param_dtype=getattr(jnp, param_dtype), use_running_average=not training)
    unit = float(jnp.finfo(half).eps)

    halves = torch.from_numpy(values).to(getattr(torch, half))
    exact = torch.nn.BatchNorm1d(CHANNELS, dtype=torch.float64).train(training)(halves.double()).detach().numpy()
    expected = theirs(halves)
    x = jnp.asarray(values, half)
    y = call(ours, x)

    assert y.dtype == str(expected.dtype).removeprefix("torch.") == half
    np.testing.assert_allclose(
        np.asarray(y).astype(np.float64), exact, rtol=unit / 2, atol=1e-5
    )  # rounded once, at the end
    assert ours.mean.dtype == ours.var.dtype == param_dtype
    statistics = [(ours.mean, theirs.running_mean), (ours.var, theirs.running_var)]
    for mine, its in statistics:
        # With parameters in half precision torch rounds the batch's statistics too, on a CPU.
        near = unit if params == "half" else 2e-6
        np.testing.assert_allclose(mine[...].astype(np.float32), its.float().numpy(), rtol=near)
    if training and params == "float32":
        in_half = 0.1 * np.asarray(x.mean(0)).astype(np.float32)
        assert np.abs(ours.mean[...] / in_half - 1).max() > 2e-5  # seen, were the statistics in half


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_running_statistics_in_half_precision_are_rounded_once(half: str) -> None:
    norm = BatchNorm(200, param_dtype=half)
    x = jnp.asarray(random(64, 200), half)
    call(norm, x)
    var = np.asarray(x).astype(np.float64).var(0, ddof=1)
    np.testing.assert_array_equal(norm.var[...], (0.9 + 0.1 * var).astype(norm.var.dtype))


@pytest.mark.parametrize(
    ("x", "params", "dtype", "result"),
    [
        ("float32", "float32", None, "float32"),
        ("float32", "float64", None, "float64"),
        ("float64", "float32", None, "float64"),
        ("float16", "float64", None, "float16"),
        ("bfloat16", "float32", "float32", "float32"),
        ("float32", "float32", "bfloat16", "bfloat16"),
    ],
)
def test_the_dtype_of_the_result(x: str, params: str, dtype: str | None, result: str, float64: None) -> None:
    norm = BatchNorm(CHANNELS, param_dtype=params, dtype=dtype)
    assert call(norm, jnp.asarray(random(8, CHANNELS), x)).dtype == result
    assert norm.mean.dtype == norm.var.dtype == norm.scale.dtype == params


def test_integers_are_normalised_as_floats() -> None:
    norm = BatchNorm(CHANNELS, use_scale=False, use_bias=False)
    x = jnp.arange(8 * CHANNELS, dtype=jnp.uint8).reshape(8, CHANNELS)
    np.testing.assert_array_equal(call(norm, x), call(norm, x.astype(jnp.float32)))


# %% Refusals


@pytest.mark.parametrize("shape", [(1, CHANNELS), (1, 1, 1, CHANNELS), (CHANNELS,)])
@pytest.mark.parametrize("options", [{}, {"track_running_stats": False, "use_running_average": True}])
def test_one_value_per_channel_has_no_statistics(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    norm = BatchNorm(CHANNELS, **options)
    with pytest.raises(UsageError, match=r"more than one value per channel.*\("):
        norm(jnp.ones(shape))
    if norm.num_batches_tracked is not None:
        assert norm.num_batches_tracked[...] == 0


def test_a_batch_of_none_is_counted_and_changes_no_statistics_as_in_torch() -> None:
    theirs, ours = torch.nn.BatchNorm1d(CHANNELS), BatchNorm(CHANNELS)
    assert theirs(torch.ones(0, CHANNELS)).shape == ours(jnp.ones((0, CHANNELS))).shape
    assert int(theirs.num_batches_tracked) == int(ours.num_batches_tracked[...]) == 1
    np.testing.assert_array_equal(ours.mean[...], theirs.running_mean.numpy())
    np.testing.assert_array_equal(ours.var[...], theirs.running_var.numpy())
    ours.eval()
    assert ours(jnp.ones((0, CHANNELS))).shape == (0, CHANNELS)
    assert ours.num_batches_tracked[...] == 1


def test_torch_refuses_one_value_too() -> None:
    for norm in (torch.nn.BatchNorm1d(CHANNELS), torch.nn.BatchNorm1d(CHANNELS, track_running_stats=False).eval()):
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            norm(torch.ones(1, CHANNELS))


def test_one_value_per_channel_is_enough_for_evaluation() -> None:
    norm = BatchNorm(CHANNELS)
    norm.eval()
    assert norm(jnp.ones((1, CHANNELS))).shape == (1, CHANNELS)


@pytest.mark.parametrize("shape", [(8, CHANNELS + 1), (8, CHANNELS, 1), (CHANNELS, 8)])
def test_another_number_of_channels_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=f"{CHANNELS} features"):
        BatchNorm(CHANNELS)(jnp.ones(shape))


# %% Axes, mapped axes and transformations


@pytest.mark.parametrize("axis", [1, -2])
def test_any_axis_may_be_the_channels(axis: int, float64: None) -> None:
    x = jnp.asarray(random(4, 6, 3, CHANNELS))
    last = BatchNorm(CHANNELS, param_dtype=jnp.float64)
    there = BatchNorm(CHANNELS, param_dtype=jnp.float64, axis=axis)
    y = call(there, jnp.moveaxis(x, -1, axis))
    np.testing.assert_allclose(jnp.moveaxis(y, axis, -1), call(last, x), rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(there.var[...], last.var[...], rtol=TOLERANCE)


@pytest.mark.parametrize(("axis_name", "equal"), [("replicas", True), (None, False)])
def test_a_mapped_axis_sees_the_whole_batchs_statistics(axis_name: str | None, equal: bool, float64: None) -> None:
    """Replicas of 4 against the batch of 12: outputs, gradients and running statistics; without the axis, not."""
    x, weights = (jnp.asarray(random(12, 6, CHANNELS, seed=seed)) for seed in (0, 1))

    def with_buffers(norm: BatchNorm, x: jax.Array) -> tuple[jax.Array, nnx.State]:
        norm = nnx.merge(*nnx.split(norm), copy=True)
        return norm(x), nnx.state(norm, nnx.BatchStat)

    def in_replicas(x: jax.Array) -> tuple[jax.Array, nnx.State]:
        norm = BatchNorm(CHANNELS, axis_name=axis_name, param_dtype=jnp.float64)
        y, buffers = jax.vmap(partial(with_buffers, norm), axis_name="replicas")(x.reshape(3, 4, 6, CHANNELS))
        return y.reshape(x.shape), buffers

    def whole(x: jax.Array) -> tuple[jax.Array, nnx.State]:
        return with_buffers(BatchNorm(CHANNELS, param_dtype=jnp.float64), x)

    @partial(jax.jit, static_argnums=0)
    def run(function: Any, x: jax.Array) -> dict[str, jax.Array]:
        y, pull_back, buffers = jax.vjp(function, x, has_aux=True)
        return {"y": y, "gradient": pull_back(weights)[0], **{name: leaf[...] for name, leaf in buffers.items()}}

    ours, expected = run(in_replicas, x), run(whole, x)
    for name in ("y", "gradient", "mean", "var"):
        difference = float(jnp.abs(ours[name] - expected[name]).max())
        assert difference < TOLERANCE if equal else difference > VISIBLE, name
    assert ours["num_batches_tracked"].tolist() == [1, 1, 1]


def test_under_nnx_jit_it_updates_in_place(float64: None) -> None:
    xs = batches(*SHAPES[0])
    eager, jitted = (BatchNorm(CHANNELS, param_dtype=jnp.float64) for _ in range(2))
    for x in xs:
        np.testing.assert_allclose(call(jitted, jnp.asarray(x)), eager(jnp.asarray(x)), rtol=0, atol=TOLERANCE)
    assert jitted.num_batches_tracked[...] == STEPS
    np.testing.assert_allclose(jitted.var[...], eager.var[...], rtol=TOLERANCE)

    jitted.eval()
    eager.eval()
    x = jnp.asarray(xs[0])
    np.testing.assert_allclose(call(jitted, x), eager(x), rtol=0, atol=TOLERANCE)
    assert jitted.num_batches_tracked[...] == STEPS


def test_a_copy_leaves_the_original_alone() -> None:
    """What `one_step` above does: split once, merge copies inside jax.jit."""
    norm = BatchNorm(CHANNELS)
    graphdef, state = nnx.split(norm)

    @jax.jit
    def step(state: nnx.State, x: jax.Array) -> nnx.State:
        copy = nnx.merge(graphdef, state, copy=True)
        copy(x)
        return nnx.state(copy)

    after = step(state, jnp.asarray(random(8, CHANNELS), jnp.float32))
    assert after["num_batches_tracked"][...] == 1
    assert norm.num_batches_tracked[...] == 0
    assert (norm.mean[...] == 0).all()


class Model(nnx.Module):
    def __init__(self) -> None:
        self.norms = nnx.List([BatchNorm(CHANNELS, momentum=0.5)])
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dropout(self.norms[0](x))


def test_train_and_eval_reach_it_inside_a_model() -> None:
    model = Model()
    x = jnp.asarray(random(8, CHANNELS), jnp.float32)
    model.eval()
    np.testing.assert_allclose(model(x), x / np.sqrt(1 + 1e-5), rtol=1e-6)  # nothing dropped
    assert model.norms[0].num_batches_tracked[...] == 0
    model.train()
    model(x)
    assert model.norms[0].num_batches_tracked[...] == 1


def test_a_view_evaluates_while_its_model_trains() -> None:
    model = Model()
    x = jnp.asarray(random(8, CHANNELS), jnp.float32)
    evaluation = nnx.view(model, use_running_average=True, deterministic=True)
    model(x)
    norm = model.norms[0]
    assert not norm.use_running_average
    assert norm.num_batches_tracked[...] == 1
    expected = (x - norm.mean[...]) / np.sqrt(norm.var[...] + 1e-5)  # the view shares the statistics
    np.testing.assert_allclose(evaluation(x), expected, rtol=1e-4, atol=1e-5)
    assert norm.num_batches_tracked[...] == 1


def test_a_call_may_choose_its_mode() -> None:
    norm = BatchNorm(CHANNELS)
    x = jnp.asarray(random(8, CHANNELS), jnp.float32)
    norm(x, use_running_average=True)
    assert norm.num_batches_tracked[...] == 0
    norm.eval()
    norm(x, use_running_average=False)
    assert norm.num_batches_tracked[...] == 1
