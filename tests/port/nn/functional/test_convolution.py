"""Convolution and its transpose against torch's."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

from port.errors import UsageError
from port.nn.functional import conv, conv_transpose

OPTIONS = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 2}


def worst(against_torch: Any, axes: int, groups: int = 1, **options: Any) -> float:
    random = np.random.default_rng(0)
    image, weight = random.normal(size=(2, 4, *(5, 4, 3)[:axes])), random.normal(size=(4, 3, *(3, 2, 2)[:axes]))
    bias = random.normal(size=3 * groups)

    def ours(image: Any, weight: Any, bias: Any) -> Any:
        kernel = jnp.transpose(weight, (*range(2, axes + 2), 1, 0))
        return jnp.moveaxis(conv_transpose(jnp.moveaxis(image, 1, -1), kernel, bias, groups=groups, **options), -1, 1)

    def theirs(*arrays: Any) -> Any:
        return getattr(F, f"conv_transpose{axes}d")(*arrays, groups=groups, **options)

    return max(against_torch(theirs, ours, image, weight, bias).values())


@pytest.mark.thin(3)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_values_and_gradients(axes: int, against_torch: Any) -> None:
    assert worst(against_torch, axes) <= 1e-12
    assert worst(against_torch, axes, **OPTIONS) <= 1e-12


@pytest.mark.thin(6)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{"stride": 2, "padding": 1, "dilation": 2, "groups": 2}, {"padding": "same", "dilation": 3}]
)
def test_convolution(axes: int, options: Any, against_torch: Any) -> None:
    random = np.random.default_rng(0)
    image = random.normal(size=(2, 4, *(9, 8, 7)[:axes]))
    weight = random.normal(size=(6, 4 // options.get("groups", 1), *(3, 2, 2)[:axes]))

    def ours(image: Any, weight: Any, bias: Any) -> Any:
        kernel = jnp.transpose(weight, (*range(2, axes + 2), 1, 0))
        return jnp.moveaxis(conv(jnp.moveaxis(image, 1, -1), kernel, bias, **options), -1, 1)

    def theirs(*arrays: Any) -> Any:
        with warnings.catch_warnings(action="ignore"):  # of padding that is not the same at both ends
            return getattr(F, f"conv{axes}d")(*arrays, **options)

    assert max(against_torch(theirs, ours, image, weight, random.normal(size=6)).values()) <= 1e-12


def test_no_batch_and_no_bias() -> None:
    image, kernel = jnp.ones((5, 4)), jnp.ones((3, 2, 4))
    assert conv_transpose(image, kernel).shape == (7, 2)
    np.testing.assert_allclose(conv_transpose(image, kernel), conv_transpose(image[None], kernel)[0])


def test_other_channels_are_refused() -> None:
    with pytest.raises(UsageError, match="channels"):
        conv_transpose(jnp.ones((1, 5, 3)), jnp.ones((3, 2, 4)))
    with pytest.raises(UsageError, match="channels"):
        conv(jnp.ones((1, 5, 3)), jnp.ones((3, 2, 4)))
