"""Padding against torch's, in float64, with negative numbers too."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UnknownChoice, UsageError

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

MODES = ("constant", "reflect", "replicate", "circular")
PADS = [(2, 3), (0, 4), (-2, 3), (3, -2), (-1, -2), (-3, 0), (3, -4)]
SIZES = (5, 6, 7)


def difference(against_torch: Any, pad: Any, x: np.ndarray, mode: str, ours_too: Any = None) -> float:
    channels = -len(pad) // 2 - 1
    value = {"value": 1.5} if mode == "constant" else {}
    seen = against_torch(
        partial(F.pad, pad=pad, mode=mode, **value),
        lambda x: jnp.moveaxis((ours_too or partial(ours.pad, pad=pad, mode=mode, **value))(x), -1, channels),
        x,
        channels=channels,
    )
    return max(seen.values())


def random(spatial: int, batch: tuple[int, ...] = (2,)) -> np.ndarray:
    return np.random.default_rng(0).normal(0.5, 2, (*batch, 3, *SIZES[3 - spatial :]))


@pytest.mark.parametrize("mode", MODES)
def test_one_axis(mode: str, against_torch: Any, subtests: pytest.Subtests) -> None:
    for pad in PADS:
        with subtests.test(str(pad)):
            assert difference(against_torch, pad, random(1), mode) < 1e-15


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", [(1, 2, 3, 0), (-1, 2, 1, -2), (2, 1, 0, 3, 4, 1), (-1, 3, 2, -2, 0, 1)], ids=str)
def test_several_axes(mode: str, pad: tuple[int, ...], against_torch: Any) -> None:
    assert difference(against_torch, pad, random(len(pad) // 2), mode) < 1e-15
    assert difference(against_torch, pad, random(len(pad) // 2, ()), mode) < 1e-15


@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        ("constant", partial(ours.pad, pad=(3, 0, 1, 2), value=1.5)),  # the axes the other way round
        ("constant", partial(ours.pad, pad=(2, 1, 0, 3), value=1.5)),  # the ends
        ("constant", partial(ours.pad, pad=(1, 2, 3, 0))),
        ("reflect", partial(ours.pad, pad=(1, 2, 3, 0), mode="replicate")),
        ("circular", partial(ours.pad, pad=(1, 2, 3, 0), mode="reflect")),
        ("reflect", lambda x: jnp.pad(x, ((0, 0), (3, 0), (1, 2), (0, 0)), "symmetric")),
    ],
)
def test_another_padding_is_seen(mode: str, fault: Any, against_torch: Any) -> None:
    x = random(2)[..., [0, 1, 2, 3, 4, 5]]  # 6 × 6: the axes can be confused
    x = np.concatenate([x, x], -2)[..., :6, :]
    try:
        assert difference(against_torch, (1, 2, 3, 0), x, mode, fault) > 1e-2
    except ValueError as error:  # of jax: the result has another shape
        assert "shape" in str(error)


def test_what_is_taken_away_is_still_reflected_and_not_wrapped_around(against_torch: Any) -> None:
    x = random(1)
    cropped = x[..., 2:]
    reflected = partial(ours.pad, pad=(0, 6), mode="reflect")
    assert reflected(jnp.asarray(np.moveaxis(x, 1, -1)))[:, 2:].shape[1] == 11
    assert difference(against_torch, (-2, 6), x, "reflect") == 0
    assert difference(against_torch, (0, 3), cropped, "circular") == 0
    whole = ours.pad(jnp.asarray(np.moveaxis(x, 1, -1)), (-2, 3), "circular")
    crop = ours.pad(jnp.asarray(np.moveaxis(cropped, 1, -1)), (0, 3), "circular")
    np.testing.assert_array_equal(whole, crop)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int32", "bool"])
@pytest.mark.parametrize("mode", MODES)
def test_the_dtype_is_kept(mode: str, dtype: str, float64: None) -> None:
    given = jax.ShapeDtypeStruct((2, 5, 6, 3), jnp.dtype(dtype))
    assert jax.eval_shape(partial(ours.pad, pad=(1, 2, -1, 1), mode=mode), given).dtype == given.dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 2, 3),), "two numbers for each spatial axis"),
        (((1, 1) * 4,), "two numbers for each spatial axis"),
        (((6, 0), "reflect"), "by 5 at most"),
        (((0, 7), "circular"), "by 6 at most"),
        (((-2, 5), "circular"), "by 4 at most"),
        (((-4, -2),), "leaves nothing"),
    ],
)
def test_what_cannot_be_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ours.pad(jnp.ones((2, 5, 6, 3)), *arguments)


def test_a_mode_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownChoice, match=r"'symmetric'; there are: .*circular"):
        ours.pad(jnp.ones((2, 5, 3)), (1, 1), "symmetric")
