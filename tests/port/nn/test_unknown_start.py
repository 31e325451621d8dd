"""A parameter of which nobody knows how it starts: a new model raises, an abstract one and one to be filled do not."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from port.errors import NoInitialValue
from port.nn import filled_later, unknown_start

UNKNOWN = unknown_start("Net.kernel", "torch.empty leaves it unset")
MESSAGE = re.escape("Net.kernel has no initial value: torch.empty leaves it unset. Load weights")


def layer() -> nnx.Linear:
    return nnx.Linear(3, 4, kernel_init=UNKNOWN, rngs=nnx.Rngs(0))


def test_a_new_one_raises() -> None:
    with pytest.raises(NoInitialValue, match=MESSAGE):
        layer()


def test_an_abstract_one_does_not() -> None:
    assert nnx.eval_shape(layer).kernel.shape == (3, 4)


def test_a_compiled_one_raises_when_it_runs() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=MESSAGE):
        jax.block_until_ready(nnx.state(nnx.jit(layer)()))


def test_one_that_is_filled_later_is_zeros_until_then() -> None:
    with filled_later():
        assert not jnp.any(layer().kernel[...])
    with pytest.raises(NoInitialValue):
        layer()


def test_also_after_a_failure_inside() -> None:
    with pytest.raises(ZeroDivisionError), filled_later():
        _ = 1 / 0
    with pytest.raises(NoInitialValue):
        layer()
