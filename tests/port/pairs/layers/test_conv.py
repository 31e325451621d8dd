"""torch.nn.Conv1d, Conv2d, Conv3d and what they are paired with."""

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
from port.pairs import twin_pair

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds

Case = tuple[Callable[[], nn.Module], tuple[int, ...]]


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(1, 2, shape))


CASES: dict[str, Case] = {
    "conv1d": (lambda: nn.Conv1d(3, 5, 4), (2, 3, 9)),
    "conv1d, all at once": (lambda: nn.Conv1d(6, 4, 3, 2, 1, 2, groups=2, bias=False), (2, 6, 11)),
    "conv1d, depthwise with a multiplier": (lambda: nn.Conv1d(4, 8, 5, groups=4), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(3, 5, (2, 4)), (2, 3, 6, 7)),
    "conv2d, no batch": (lambda: nn.Conv2d(3, 5, (2, 4)), (3, 6, 7)),
    "conv2d, one by one, square": (lambda: nn.Conv2d(4, 4, 1), (2, 4, 3, 5)),
    "conv2d, a cube and more": (lambda: nn.Conv2d(3, 3, 3, padding=1), (2, 3, 4, 5)),
    "conv2d, stride": (lambda: nn.Conv2d(3, 5, 3, stride=(2, 1), padding=(1, 2)), (2, 3, 7, 6)),
    "conv2d, dilation": (lambda: nn.Conv2d(3, 5, (3, 2), dilation=(1, 3)), (2, 3, 7, 6)),
    "conv2d, stride and dilation": (lambda: nn.Conv2d(3, 5, (3, 2), (2, 1), 1, (2, 3)), (2, 3, 8, 7)),
    "conv2d, groups": (lambda: nn.Conv2d(6, 9, (3, 2), groups=3), (2, 6, 5, 4)),
    "conv2d, groups as wide as the output": (lambda: nn.Conv2d(8, 4, 3, groups=2), (2, 8, 5, 4)),
    "conv2d, depthwise, no bias": (lambda: nn.Conv2d(5, 5, 3, groups=5, bias=False), (2, 5, 4, 6)),
    "conv2d, 'same', even": (lambda: nn.Conv2d(3, 4, (4, 3), padding="same", dilation=(2, 1)), (2, 3, 7, 6)),
    "conv2d, 'valid'": (lambda: nn.Conv2d(3, 4, (4, 3), padding="valid", stride=2), (2, 3, 7, 6)),
    "conv3d": (lambda: nn.Conv3d(2, 3, (2, 3, 1)), (2, 2, 4, 5, 3)),
    "conv3d, all at once": (
        lambda: nn.Conv3d(4, 6, (2, 3, 2), (1, 2, 1), (1, 0, 2), (1, 1, 2), groups=2),
        (2, 4, 4, 5, 3),
    ),
    "conv3d, 'same'": (lambda: nn.Conv3d(2, 2, (1, 2, 3), padding="same"), (2, 2, 3, 4, 3)),
    "conv2d, reflect, groups, stride, no batch": (
        lambda: nn.Conv2d(4, 6, (2, 3), (2, 1), (1, 2), groups=2, padding_mode="reflect"),
        (4, 5, 6),
    ),
    "conv3d, replicate": (
        lambda: nn.Conv3d(2, 3, (2, 3, 2), padding=(1, 0, 2), padding_mode="replicate"),
        (2, 2, 4, 5, 3),
    ),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")  # torch's own
@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(6)
def test_W2_the_twin_computes_the_same_with_the_same_gradients(name: str, sides: Any) -> None:
    make, shape = CASES[name]
    both = sides(make())
    both.check_weights()
    assert both.difference(random(*shape), steps=1) < TOLERANCE


def test_flaxs_own_layer_is_the_twin_where_it_is_exact() -> None:
    assert twin_pair(nn.Conv2d(3, 5, 3)).flax == "flax.nnx.Conv"
    assert twin_pair(nn.Conv2d(3, 5, 3, padding_mode="circular")).flax == "port.nn.Conv"


PADDINGS = [
    (mode, kernel, padding, dilation)
    for mode, kernel, padding, dilation in product(
        ("zeros", "reflect", "replicate", "circular"), (2, 3, 4, 5), (0, 1, 2, "same"), (1, 2)
    )
]
SOME = [("reflect", 4, "same", 1), ("replicate", 3, 2, 2), ("circular", 2, 1, 2), ("circular", 5, "same", 1)]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("mode", "kernel", "padding", "dilation"), SOME)
def test_W4_a_padding_mode(mode: str, kernel: int, padding: int | str, dilation: int, sides: Any) -> None:
    check_padding(mode, kernel, padding, dilation, sides)


@pytest.mark.daily(2)
@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("mode", "kernel", "padding", "dilation"), PADDINGS)
def test_W4_every_padding_mode(mode: str, kernel: int, padding: int | str, dilation: int, sides: Any) -> None:
    check_padding(mode, kernel, padding, dilation, sides)


def check_padding(mode: str, kernel: int, padding: int | str, dilation: int, sides: Any) -> None:
    # Not a width of 2: XLA on the CPU (jax 0.10.2 and 0.12.0.1) ends the process, "Window dimensions do not match RHS
    # shape", when it compiles the input's gradient of a convolution of kernel 2, stride 2 and padding 1 along one axis
    # whose result along another is smaller than the kernel there.
    strides = (1,) if padding == "same" else (1, 2)
    for stride in strides:
        layer = nn.Conv2d(2, 3, (kernel, 3), stride, padding, (dilation, 1), padding_mode=mode)
        assert sides(layer).difference(random(2, 2, 9, 10), steps=1) < TOLERANCE


@pytest.mark.parametrize(("mode", "flaxs"), [("reflect", "REFLECT"), ("circular", "CIRCULAR")])
@pytest.mark.parametrize(("kernel", "padding", "agrees"), [(3, 1, True), (5, 2, True), (5, 1, False)])
def test_W4_flaxs_own_modes_pad_by_half_the_kernel_only(
    mode: str, flaxs: str, kernel: int, padding: int, agrees: bool, sides: Any
) -> None:
    layer = nn.Conv1d(2, 3, kernel, padding=padding, padding_mode=mode)
    both = sides(layer, flax=("flax.nnx.Conv", partial(nnx.Conv, 2, 3, kernel, padding=flaxs, param_dtype=jnp.float64)))
    if agrees:
        assert both.difference(random(2, 2, 9), steps=1) < TOLERANCE
    else:
        with pytest.raises(AssertionError, match="output"):  # of another shape
            both.difference(random(2, 2, 9), steps=1)


# %% Planted faults: all have the right shapes, and go there and back bit for bit


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (lambda: nn.Conv1d(3, 3, 3), (2, 3, 7), (0, 1, 2)),
        (lambda: nn.Conv1d(3, 3, 3), (2, 3, 7), (2, 0, 1)),
        (lambda: nn.Conv2d(3, 3, 3), (2, 3, 5, 6), (0, 1, 2, 3)),
        (lambda: nn.Conv2d(3, 3, 3), (2, 3, 5, 6), (2, 3, 0, 1)),
        (lambda: nn.Conv2d(3, 5, 3), (2, 3, 5, 6), (3, 2, 1, 0)),
        (lambda: nn.Conv2d(8, 4, 3, groups=2), (2, 8, 5, 4), (2, 3, 0, 1)),
        (lambda: nn.Conv3d(2, 3, 2), (2, 2, 3, 3, 4), (3, 2, 4, 1, 0)),
    ],
)
def test_W2_a_wrong_permutation_that_fits_is_seen(
    layer: Callable[[], nn.Module], shape: tuple[int, ...], axes: tuple[int, ...], sides: Any
) -> None:
    both = sides(layer(), moves={"weight": (Permute(axes),)})
    assert both.difference(random(*shape), steps=1) > VISIBLE


def test_W3_same_is_not_torchs_padding_at_a_stride(sides: Any) -> None:
    """SAME pads (0, 1) where torch's padding=1 pads (1, 1)."""
    both = sides(nn.Conv2d(3, 5, 3, stride=2, padding=1), attributes={"padding": "SAME"})
    assert both.difference(random(2, 3, 8, 8), steps=1) > VISIBLE


@pytest.mark.parametrize(("mode", "other"), [("reflect", "replicate"), ("circular", "reflect")])
def test_W4_another_padding_mode_is_seen(mode: str, other: str, sides: Any) -> None:
    both = sides(nn.Conv2d(2, 3, 3, padding=2, padding_mode=mode), attributes={"padding_mode": other})
    assert both.difference(random(2, 2, 5, 6), steps=1) > VISIBLE


# %% Written apart


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", [name for name in CASES if "no batch" not in name and "replicate" not in name])
@pytest.mark.thin(3)
def test_linens_conv(name: str, sides: Any, linen: Any) -> None:
    make, shape = CASES[name]
    layer = sides(make()).layer
    options = twin_pair(layer).arguments(layer)
    module = flax_linen.Conv(
        options["out_features"],
        options["kernel_size"],
        options["strides"],
        padding=options["padding"],
        kernel_dilation=options["kernel_dilation"],
        feature_group_count=options["feature_group_count"],
        use_bias=options["use_bias"],
        param_dtype=jnp.float64,
    )
    x = random(*shape)
    y = module.apply(linen(layer, module), jnp.moveaxis(jnp.asarray(x.numpy()), 1, -1))
    np.testing.assert_allclose(jnp.moveaxis(y, -1, 1), layer(x).detach().numpy(), rtol=1e-10, atol=TOLERANCE)


def test_linens_int_kernel_is_one_axis(sides: Any, linen: Any) -> None:
    layer, module = sides(nn.Conv1d(2, 3, 4)).layer, flax_linen.Conv(3, 4, padding="VALID", param_dtype=jnp.float64)
    x = random(2, 2, 7)
    y = module.apply(linen(layer, module), jnp.moveaxis(jnp.asarray(x.numpy()), 1, -1))
    np.testing.assert_allclose(jnp.moveaxis(y, -1, 1), layer(x).detach().numpy(), rtol=1e-10, atol=TOLERANCE)
