"""A Linen model's mode: by its keywords, or by whether its statistics can be written."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

from port.parity.sides.inputs import inputs_from
from port.parity.sides.linen_side import LinenSide
from port.parity.sides.tap import Tap

INPUTS = np.random.default_rng(0).normal(size=(5, 3)) + 2


class KnowsByStatistics(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.BatchNorm(use_running_average=not self.is_mutable_collection("batch_stats"))(x)


class AlwaysOfTheBatch(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.BatchNorm(use_running_average=False)(x)


class Float32Beside(linen.Module):
    """Its initialiser gives float64 in a float64 run, and it takes no other dtype than its input's."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        scale = self.param("scale", linen.initializers.constant(jnp.log2(5.0)), ())
        if scale.dtype != x.dtype:
            raise ValueError(f"{scale.dtype} is not {x.dtype}")
        return x * scale


class Asks(linen.Module):
    """It makes an array of what is none of jax's."""

    @linen.compact
    def __call__(self, x: Any, times: Any) -> Any:
        times = times if isinstance(times, jax.Array) else jnp.asarray([times])
        return x * linen.Dense(3)(times[:, None].astype(x.dtype))


def test_keywords_are_jaxs_arrays_too() -> None:
    given = {"x": INPUTS, "times": np.arange(5)}
    with jax.enable_x64(True):
        variables = jax.jit(Asks().init)(jax.random.key(0), jnp.asarray(INPUTS), jnp.arange(5))
        side = LinenSide(Asks(), variables, "float64", inputs := inputs_from(given, "float64"), None)
        assert side.guide.leaves["Dense_0.kernel"].shape == (1, 3)
        assert side.forward(side.variables, inputs, Tap()).shape == (5, 3)


def run(module: linen.Module, *, training: bool) -> np.ndarray:
    variables = jax.jit(module.init)(jax.random.key(0), jnp.asarray(INPUTS, jnp.float32))
    with jax.enable_x64(True):
        inputs = inputs_from(INPUTS, "float64")
        side = LinenSide(module, variables, "float64", inputs, None)
        return np.asarray(side.call(side.variables, inputs, training=training, tap=Tap())[0])


OF_THE_BATCH = (INPUTS - INPUTS.mean(0)) / np.sqrt(INPUTS.var(0) + 1e-5)


@pytest.mark.parametrize(
    ("module", "training", "expected"),
    [
        (KnowsByStatistics(), False, INPUTS / np.sqrt(1 + 1e-5)),
        (KnowsByStatistics(), True, OF_THE_BATCH),
        (AlwaysOfTheBatch(), False, OF_THE_BATCH),
    ],
)
def test_statistics_can_be_written_in_training_alone(module: Any, training: bool, expected: np.ndarray) -> None:
    np.testing.assert_allclose(run(module, training=training), expected, rtol=1e-6)


def test_a_model_whose_initialiser_gives_another_dtype_runs_with_its_own_variables() -> None:
    np.testing.assert_allclose(run(Float32Beside(), training=False), INPUTS * np.log2(5.0), rtol=1e-6)


class DropsItself(linen.Module):
    """Dropout that no layer is told of; or that of a layer."""

    of_its_own: bool

    @linen.compact
    def __call__(self, x: Any, deterministic: bool = True) -> Any:
        if not self.of_its_own or deterministic:
            return linen.Dropout(0.5)(x, deterministic=deterministic)
        return jnp.where(jax.random.bernoulli(self.make_rng("dropout"), 0.5, x.shape), x / 0.5, 0.0)


@pytest.mark.parametrize("of_its_own", [True, False])
def test_random_numbers_that_a_model_asks_for_itself_are_seen(of_its_own: bool) -> None:
    side = LinenSide(DropsItself(of_its_own), {"params": {}}, "float64", inputs := inputs_from(INPUTS, "float64"), None)
    assert side.is_random(inputs) == of_its_own


class Nothing(linen.Module):
    """It is constructed in a way of its own, and stands in no other module."""

    def __init__(self, *args: Any) -> None:
        pass

    def __call__(self, x: Any) -> Any:
        return x


class CallsNothing(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(2)(Nothing(3)(x))


def test_a_module_without_a_place_is_called_as_it_is() -> None:
    with jax.enable_x64(True):
        variables = CallsNothing().init(jax.random.key(0), jnp.asarray(INPUTS))
        side = LinenSide(CallsNothing(), variables, "float64", inputs := inputs_from(INPUTS, "float64"), None)
        assert [layer.path for layer in side.guide.layers] == ["", "Dense_0"]
        assert [call.path for call in side.traced(inputs, training=False)[1]] == ["Dense_0"]
