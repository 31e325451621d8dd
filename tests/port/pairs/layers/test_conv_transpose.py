"""torch.nn.ConvTranspose1d, 2d, 3d and what they are paired with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen as flax_linen
from flax import nnx
from torch import nn

from port.moves import Permute
from port.nn import ConvTranspose
from port.pairs import pairs_of_torch, twin_pair

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(1, 2, shape))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.ConvTranspose1d(3, 5, 4, 2, 1), (2, 3, 6)),
    "1d, no batch": (lambda: nn.ConvTranspose1d(3, 5, 4, 2, 1), (3, 6)),
    "1d, padding that crops more than the kernel": (lambda: nn.ConvTranspose1d(3, 5, 2, 3, 4), (2, 3, 6)),
    "2d": (lambda: nn.ConvTranspose2d(3, 5, (2, 3), (2, 3), (0, 1), (1, 2), dilation=(2, 1)), (2, 3, 4, 3)),
    "2d, square, a cube": (lambda: nn.ConvTranspose2d(3, 3, 3), (2, 3, 4, 5)),
    "2d, no bias": (lambda: nn.ConvTranspose2d(3, 5, (2, 3), bias=False), (2, 3, 4, 3)),
    "2d, groups": (lambda: nn.ConvTranspose2d(6, 4, (2, 3), (2, 3), (0, 1), (1, 2), groups=2), (2, 6, 4, 3)),
    "2d, groups, no batch, no bias": (lambda: nn.ConvTranspose2d(6, 9, 2, groups=3, bias=False), (6, 4, 3)),
    "2d, depthwise": (lambda: nn.ConvTranspose2d(4, 4, 3, 2, 1, 1, groups=4), (2, 4, 4, 3)),
    "3d": (lambda: nn.ConvTranspose3d(2, 3, (2, 1, 3), (1, 2, 1), (1, 0, 2), (0, 1, 0)), (2, 2, 3, 2, 4)),
    "3d, groups": (lambda: nn.ConvTranspose3d(4, 6, 2, 2, groups=2, dilation=(2, 1, 1)), (1, 4, 2, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(2)
def test_W5_the_twin_computes_the_same_with_the_same_gradients(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    both = sides(make())
    both.check_weights()
    assert both.difference(random(*shape), steps=1) < TOLERANCE


def test_W5_flaxs_own_layer_is_the_twin_where_it_is_exact() -> None:
    assert twin_pair(nn.ConvTranspose2d(4, 6, 3)).flax == "flax.nnx.ConvTranspose"
    assert twin_pair(nn.ConvTranspose2d(4, 6, 3, groups=2)).flax == "port.nn.ConvTranspose"


GRID = [
    (kernel, stride, padding, extra, dilation)
    for kernel, stride, padding, extra, dilation in product((1, 2, 3, 4, 5), (1, 2, 3), (0, 1, 2), (0, 1, 2), (1, 2, 3))
    if extra < max(stride, dilation) and 4 * stride + dilation * (kernel - 1) - 2 * padding + extra >= 1
]


@pytest.mark.sweep
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kernel", "stride", "padding", "extra", "dilation"), GRID)
def test_W5_every_combination(
    kernel: int, stride: int, padding: int, extra: int, dilation: int, groups: int, sides: Any
) -> None:
    layer = nn.ConvTranspose1d(4, 6, kernel, stride, padding, extra, groups, dilation=dilation)
    assert sides(layer).difference(random(2, 4, 5), steps=1) < TOLERANCE


def test_W5_the_grid_is_larger_than_what_was_measured_first() -> None:
    assert len(GRID) > 168


# %% Planted faults


@pytest.mark.parametrize("name", ["2d, square, a cube", "2d, depthwise"])
def test_W5_a_kernel_that_is_not_swapped_is_seen(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    if name == "2d, depthwise":
        make = lambda: nn.ConvTranspose2d(4, 16, 3, groups=4)  # noqa: E731
    both = sides(make(), moves={"weight": (Permute((2, 3, 0, 1)),)})
    assert both.difference(random(*shape), steps=1) > VISIBLE


@pytest.mark.parametrize("padding", [0, 1])
def test_W5_torchs_padding_is_not_flaxs(padding: int, sides: Any) -> None:
    """kernel 3: torch's padding=1 is Flax's 3 − 1 − 1 = 1, the fixed point; at 0 it is 2."""
    layer = nn.ConvTranspose1d(3, 3, 3, padding=padding)
    both = sides(layer, attributes={"padding": ((padding, padding),)})
    if padding == 1:
        assert both.difference(random(2, 3, 6), steps=1) < TOLERANCE
    else:
        with pytest.raises(AssertionError, match="output"):
            both.difference(random(2, 3, 6), steps=1)


def test_W5_the_kernel_of_another_group_is_seen(sides: Any) -> None:
    """Groups laid out the other way round: the input's channels belong to the wrong ones."""
    make, shape = CASES["2d, groups"]
    both = sides(make())
    kernel = both.twin.kernel[...]
    both.twin.kernel[...] = kernel.reshape(*kernel.shape[:-1], 2, 3)[..., ::-1, :].reshape(kernel.shape)
    assert both.difference(random(*shape), steps=1) > VISIBLE


# %% Written apart


def flax_layer(cls: Any, layer: nn.Module, *features: int, **options: Any) -> Any:
    given = twin_pair(layer).arguments(layer)
    taken = ("kernel_size", "strides", "padding", "kernel_dilation", "use_bias")
    return cls(*features, **{name: given[name] for name in taken}, param_dtype=jnp.float64, **options)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("name", ["1d", "2d", "2d, square, a cube", "2d, no bias", "3d"])
@pytest.mark.thin(4)
def test_flaxs_layers_with_and_without_transposed_kernels(name: str, transposed: bool, sides: Any, linen: Any) -> None:
    make, shape = CASES[name]
    layer = sides(make()).layer
    into, out = layer.in_channels, layer.out_channels
    make_twin = partial(flax_layer, nnx.ConvTranspose, layer, into, out, transpose_kernel=transposed)
    both = sides(layer, flax=("flax.nnx.ConvTranspose", make_twin))
    assert both.difference(random(*shape), steps=1) < TOLERANCE
    module = flax_layer(flax_linen.ConvTranspose, layer, out, transpose_kernel=transposed)
    x = random(*shape)
    y = module.apply(linen(both.layer, module), jnp.moveaxis(jnp.asarray(x.numpy()), 1, -1))
    expected = both.layer(x).detach().numpy()
    np.testing.assert_allclose(jnp.moveaxis(y, -1, 1), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.sweep
def test_the_output_size_is_the_callers_with_ports_layer(sides: Any) -> None:
    layer = nn.ConvTranspose2d(3, 5, 3, stride=(2, 3), padding=1)
    (pair,) = (pair for pair in pairs_of_torch(layer) if pair.flax == "port.nn.ConvTranspose")
    make_twin = partial(ConvTranspose, **pair.arguments(layer), param_dtype=jnp.float64)
    both = sides(layer, flax=("port.nn.ConvTranspose", make_twin))
    for size in [(7, 10), (8, 12), (7, 11)]:
        assert both.difference(random(2, 3, 4, 4), steps=1, output_size=size) < TOLERANCE
