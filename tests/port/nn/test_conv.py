"""port.nn.Conv by itself: dtypes, initial values, refusals. What it computes is compared in the tests of its pair."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UnknownChoice, UsageError
from port.nn import Conv


def layer(*arguments: Any, **options: Any) -> Conv:
    return Conv(*arguments, rngs=nnx.Rngs(0), **options)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.thin(3)
def test_the_dtype_is_kept(dtype: str) -> None:
    conv = layer(2, 3, (3, 2), padding=1, padding_mode="reflect", param_dtype=dtype)
    x = jnp.ones((1, 4, 5, 2), dtype)
    assert jax.eval_shape(conv, x).dtype == dtype
    assert conv.kernel.dtype == conv.bias.dtype == dtype


def test_it_is_compiled_and_differentiated() -> None:
    conv = layer(2, 3, 3, padding=2, padding_mode="circular")
    x = jax.random.normal(jax.random.key(1), (2, 7, 2))
    eager = conv(x)
    np.testing.assert_allclose(nnx.jit(lambda conv, x: conv(x))(conv, x), eager, rtol=1e-5, atol=1e-6)
    gradient = nnx.grad(lambda conv, x: jnp.square(conv(x)).sum())(conv, x)
    # Σ y² has the gradient 2 Σ y with respect to the bias.
    np.testing.assert_allclose(gradient.bias[...], 2 * eager.sum((0, 1)), rtol=1e-4)


def test_any_number_of_batch_axes() -> None:
    conv = layer(2, 3, (2, 3), padding=(1, 2), padding_mode="replicate")
    x = jax.random.normal(jax.random.key(1), (2, 3, 4, 5, 2))
    whole = conv(x)
    np.testing.assert_allclose(whole[1, 2], conv(x[1, 2]), rtol=1e-5, atol=1e-6)


def test_W24_initial_values_are_drawn_as_torch_draws_them() -> None:
    """U(−1/√fan, 1/√fan) with the fan of one group: kernel and bias stay within it and come near it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = torch.nn.Conv2d(8, 64, (2, 4), groups=2, padding_mode="reflect")
    ours = layer(8, 64, (2, 4), groups=2, padding_mode="reflect")
    bound = 1 / np.sqrt(4 * 2 * 4)
    for values in (theirs.weight.detach(), ours.kernel[...], theirs.bias.detach(), ours.bias[...]):
        largest = float(np.abs(np.asarray(values)).max())
        assert 0.85 * bound < largest <= bound
    assert theirs.weight.detach().std() == pytest.approx(float(ours.kernel[...].std()), rel=0.05)


@pytest.mark.parametrize(("mode", "reaches"), [("reflect", 3), ("circular", 4)])
def test_padding_that_reaches_over_the_input_is_refused_as_in_torch(mode: str, reaches: int) -> None:
    for padding in (reaches, reaches + 1):
        theirs = torch.nn.Conv1d(2, 3, 2, padding=padding, padding_mode=mode)
        ours = layer(2, 3, 2, padding=padding, padding_mode=mode)
        if padding == reaches:
            assert theirs(torch.ones(1, 2, 4)).shape[-1] == ours(jnp.ones((1, 4, 2))).shape[1]
        else:
            with pytest.raises(RuntimeError):
                theirs(torch.ones(1, 2, 4))
            with pytest.raises(UsageError, match=f"{mode}.*reaches over"):
                ours(jnp.ones((1, 4, 2)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"padding_mode": "mirror"}, UnknownChoice, "'mirror'.*reflect"),
        ({"padding": "full"}, UnknownChoice, "'full'.*valid"),
        ({"padding": "same", "stride": 2}, UsageError, "stride of 1"),
        ({"groups": 3}, UsageError, "3 groups must divide 4"),
        ({"padding": (1, 2, 3)}, UsageError, "2 axes"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        layer(4, 6, (3, 3), **options)
