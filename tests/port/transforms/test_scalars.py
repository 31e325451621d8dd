"""The scalars of one step, in float32, against Python's fractions."""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from port.transforms.scalars import bias_correction, learning_rate_at, log_decay


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.999, 0.99999])
def test_the_bias_correction_has_no_cancellation(decay: float) -> None:
    counts = [1, 2, 10, 1000]
    exact = [float(1 - Fraction(decay) ** t) for t in counts]
    got = np.asarray([bias_correction(decay, jnp.asarray(t)) for t in counts])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, exact, rtol=1e-6)
    if decay >= 0.999:  # as it stands in float32
        assert abs((1 - np.float32(decay)) / exact[0] - 1) > 1e-5


def test_a_decay_of_0_corrects_nothing() -> None:
    assert log_decay(0.0) == -np.inf
    for decay in (0, 0.0, jnp.asarray(0.0)):
        assert bias_correction(decay, jnp.asarray(1)) == bias_correction(decay, jnp.asarray(7)) == 1


def test_a_decay_that_is_an_array() -> None:
    np.testing.assert_allclose(bias_correction(jnp.asarray(0.75), jnp.asarray(3)), 1 - 0.75**3, rtol=1e-6)


def test_the_learning_rate_of_a_number_and_of_a_schedule() -> None:
    assert learning_rate_at(0.3, jnp.asarray(4)) == 0.3
    assert learning_rate_at(lambda count: count + 0.5, jnp.asarray(4)) == 4.5
