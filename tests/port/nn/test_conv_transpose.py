"""port.nn.ConvTranspose by itself: dtypes, initial values, the output's size, refusals."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import ConvTranspose


def layer(*arguments: Any, **options: Any) -> ConvTranspose:
    return ConvTranspose(*arguments, rngs=nnx.Rngs(0), **options)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.thin(3)
def test_the_dtype_is_kept(dtype: str) -> None:
    conv = layer(4, 6, (3, 2), groups=2, param_dtype=dtype)
    assert jax.eval_shape(conv, jnp.ones((1, 4, 5, 4), dtype)).dtype == dtype
    assert conv.kernel.dtype == conv.bias.dtype == dtype


def test_W5_it_is_the_gradient_of_a_convolution() -> None:
    """<conv(x), y> = <x, transposed(y)> with one kernel, in groups."""
    x, y = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(2, 9, 6), (2, 4, 4)]))
    transposed = layer(4, 6, 3, stride=2, groups=2, bias=False)
    conv = nnx.Conv(6, 4, 3, 2, padding="VALID", feature_group_count=2, use_bias=False, rngs=nnx.Rngs(1))
    conv.kernel[...] = transposed.kernel[...]
    np.testing.assert_allclose((conv(x) * y).sum(), (x * transposed(y)).sum(), rtol=1e-4)


def test_W24_initial_values_are_drawn_as_torch_draws_them() -> None:
    """torch counts the fan of the weight (in, out/groups, *window) as it lies."""
    theirs = torch.nn.ConvTranspose2d(64, 8, (2, 4), groups=2)
    ours = layer(64, 8, (2, 4), groups=2)
    bound = 1 / np.sqrt(4 * 2 * 4)
    for values in (theirs.weight.detach(), ours.kernel[...]):
        assert 0.95 * bound < float(np.abs(np.asarray(values)).max()) <= bound
    for values in (theirs.bias.detach(), ours.bias[...]):
        assert float(np.abs(np.asarray(values)).max()) <= bound


@pytest.mark.parametrize("size", [(7, 10), (8, 12), (7, 11)])
def test_the_caller_may_choose_the_outputs_size(size: tuple[int, int]) -> None:
    conv, x = layer(3, 5, (3, 3), (2, 3), 1), jnp.ones((2, 4, 4, 3))
    assert jax.eval_shape(lambda x: conv(x, output_size=size), x).shape == (2, *size, 5)


@pytest.mark.parametrize("size", [(6, 10), (9, 10), (7, 13), (7,), (7, 10, 5)])
def test_a_size_that_cannot_be_is_refused_as_in_torch(size: tuple[int, ...]) -> None:
    theirs = torch.nn.ConvTranspose2d(3, 5, 3, (2, 3), 1)
    with pytest.raises(ValueError):
        theirs(torch.ones(2, 3, 4, 4), output_size=list(size))
    with pytest.raises(UsageError, match=r"at least \(7, 10\)"):
        layer(3, 5, (3, 3), (2, 3), 1)(jnp.ones((2, 4, 4, 3)), output_size=size)


def test_output_padding_is_less_than_stride_or_dilation() -> None:
    theirs = torch.nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=2)
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        theirs(torch.ones(1, 2, 4))
    with pytest.raises(UsageError, match="output padding"):
        layer(2, 3, 3, stride=2, output_padding=2)(jnp.ones((1, 4, 2)))
    y = jax.eval_shape(layer(2, 3, 3, stride=2, output_padding=2, dilation=3), jnp.ones((1, 4, 2)))
    assert y.shape[1] == torch.nn.ConvTranspose1d(2, 3, 3, 2, 0, 2, dilation=3)(torch.ones(1, 2, 4)).shape[-1]


def test_groups_divide_the_channels() -> None:
    with pytest.raises(UsageError, match="2 groups must divide 3"):
        layer(3, 4, 2, groups=2)
