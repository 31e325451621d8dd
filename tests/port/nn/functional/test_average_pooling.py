"""Average pooling against torch's, in float64: every option on sizes that do not come out even."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F
from flax import nnx

import port.nn.functional as ours
from port.errors import UsageError

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

TOLERANCE, VISIBLE = 1e-13, 1e-4
LENGTHS = (9, 7, 6)
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
POWER = {1: F.lp_pool1d, 2: F.lp_pool2d, 3: F.lp_pool3d}


def random(spatial: int, batch: tuple[int, ...] = (2,)) -> np.ndarray:
    return np.random.default_rng(0).normal(0.5, 2, (*batch, 3, *LENGTHS[:spatial]))


def both(against_torch: Any, theirs: Any, twin: Any, x: np.ndarray, spatial: int) -> float:
    """The largest difference of values and gradients; channels last on our side."""
    channels = -spatial - 1
    return max(against_torch(theirs, lambda x: jnp.moveaxis(twin(x), -1, channels), x, channels=channels).values())


def options() -> list[dict[str, Any]]:
    grid = product([(2, 3, 4), (4, 2, 3)], [None, (1, 3, 2), (3, 2, 4)], [0, 1], [False, True], [False, True])
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
    return [dict(zip(names, values, strict=True)) for values in grid]


def check_average(spatial: int, given: dict[str, Any], against_torch: Any) -> None:
    given = {name: v[:spatial] if isinstance(v, tuple) else v for name, v in given.items()}
    assert (
        both(
            against_torch, partial(AVERAGE[spatial], **given), partial(ours.avg_pool, **given), random(spatial), spatial
        )
        <= TOLERANCE
    )


@pytest.mark.parametrize("given", options()[3::7], ids=str)
def test_W18_an_average_pool(given: dict[str, Any], against_torch: Any) -> None:
    check_average(2, given, against_torch)


@pytest.mark.sweep
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_W18_every_average_pool(spatial: int, against_torch: Any, subtests: pytest.Subtests) -> None:
    for given in options():
        with subtests.test(str(given)):
            check_average(spatial, given, against_torch)


def test_W18_what_flax_lacks_is_seen(against_torch: Any) -> None:
    """No ceil_mode: another shape. And the last window's divisor is that of the elements it has."""
    given = {"kernel_size": (3, 3), "stride": 2, "padding": 1, "ceil_mode": True}
    x = random(2)[..., :6]
    flaxs = nnx.avg_pool(jnp.asarray(np.moveaxis(x, 1, -1)), (3, 3), (2, 2), ((1, 1), (1, 2)))
    mine = ours.avg_pool(jnp.asarray(np.moveaxis(x, 1, -1)), **given)
    assert mine.shape == flaxs.shape
    assert np.abs(mine - flaxs).max() > VISIBLE
    assert both(against_torch, partial(F.avg_pool2d, **given), partial(ours.avg_pool, **given), x, 2) <= TOLERANCE


@pytest.mark.parametrize("divisor", [1, 5])
def test_W18_a_divisor_of_ones_own(divisor: int, against_torch: Any) -> None:
    given = {"kernel_size": (3, 2), "padding": 1, "ceil_mode": True, "divisor_override": divisor}
    x = random(2)
    assert both(against_torch, partial(F.avg_pool2d, **given), partial(ours.avg_pool, **given), x, 2) <= TOLERANCE
    without = partial(ours.avg_pool, **(given | {"divisor_override": None}))
    assert both(against_torch, partial(F.avg_pool2d, **given), without, x, 2) > VISIBLE


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 7), (3, None), (13, 4), (None, 10)], ids=str)
def test_W19_an_adaptive_average_pool(size: tuple[Any, ...], against_torch: Any) -> None:
    theirs, twin = partial(F.adaptive_avg_pool2d, output_size=size), partial(ours.adaptive_avg_pool, output_size=size)
    assert both(against_torch, theirs, twin, random(2), 2) <= TOLERANCE


@pytest.mark.parametrize("spatial", [1, 3])
def test_W19_without_a_batch_and_in_other_dimensions(spatial: int, against_torch: Any) -> None:
    size = (4, 5, 4)[:spatial]
    theirs, twin = partial(ADAPTIVE[spatial], output_size=size), partial(ours.adaptive_avg_pool, output_size=size)
    assert both(against_torch, theirs, twin, random(spatial, ()), spatial) <= TOLERANCE


def test_W19_windows_that_do_not_overlap_are_seen(against_torch: Any) -> None:
    """7 elements in 3 windows: torch's are 0–3, 2–5, 4–7. The even split of the first 6 is another."""
    x = random(2)
    fault = partial(ours.avg_pool, kernel_size=(3, 2), stride=(3, 2), padding=0)
    assert both(against_torch, partial(F.adaptive_avg_pool2d, output_size=(3, 3)), fault, x, 2) > VISIBLE


@pytest.mark.parametrize("norm", [1, 2.0, 1.5, 3, float("inf"), -float("inf"), -2])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_a_power_average_pool(norm: float, ceil_mode: bool, against_torch: Any) -> None:
    given = {"norm_type": norm, "kernel_size": (2, 3), "stride": (2, 2), "ceil_mode": ceil_mode}
    x = np.abs(random(2)) + 0.1
    assert both(against_torch, partial(F.lp_pool2d, **given), partial(ours.lp_pool, **given), x, 2) <= TOLERANCE
    fault = partial(ours.lp_pool, **(given | {"norm_type": 2.5}))
    assert both(against_torch, partial(F.lp_pool2d, **given), fault, x, 2) > VISIBLE


@pytest.mark.parametrize("norm", [2, 3.0])
def test_G3_a_power_average_of_zeros_has_gradient_zero(norm: float, against_torch: Any) -> None:
    x = random(2)
    x[0, 0, :4] = 0
    given = {"norm_type": norm, "kernel_size": (2, 2)}
    # An odd power's negative sums are NaN on both sides.
    assert both(against_torch, partial(F.lp_pool2d, **given), partial(ours.lp_pool, **given), x, 2) <= TOLERANCE
    gradient = jax.grad(lambda x: ours.lp_pool(x, **given).sum())(jnp.zeros((2, 2, 1)))
    assert (gradient == 0).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    "pool",
    [
        partial(ours.avg_pool, kernel_size=(3, 2), padding=1, count_include_pad=False),
        partial(ours.adaptive_avg_pool, output_size=(2, 3)),
        partial(ours.lp_pool, norm_type=1.5, kernel_size=(2, 2)),
    ],
)
def test_the_dtype_is_kept(pool: Any, dtype: str, float64: None) -> None:
    given = jax.ShapeDtypeStruct((2, 5, 7, 3), jnp.dtype(dtype))
    output, gradient = jax.eval_shape(lambda x: (pool(x), jax.grad(lambda x: pool(x).sum())(x)), given)
    assert output.dtype == given.dtype
    assert gradient == given


def test_half_precision_is_summed_in_float32() -> None:
    x = jnp.full((1, 64, 64, 1), 1.01, jnp.bfloat16)
    for mean in (ours.avg_pool(x, (64, 64)), ours.adaptive_avg_pool(x, (1, 1))):
        assert mean == x[:, :1, :1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ours.avg_pool(x, (3, 3), padding=2), "at most half"),
        (lambda x: ours.avg_pool(x, (3, 3), divisor_override=0), "must not be 0"),
        (lambda x: ours.avg_pool(x, (9, 3)), "does not fit"),
        (lambda x: ours.avg_pool(x, (2, 2), stride=(1, 1, 1)), "stride needs a number for each of 2"),
        (lambda x: ours.avg_pool(x, (2,)), "1 spatial axes need an input of 2 axes"),
        (lambda x: ours.adaptive_avg_pool(x, (0, 2)), "at least 1"),
        (lambda x: ours.lp_pool(x, 0, (2, 2)), "must not be 0"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(jnp.ones((2, 5, 7, 3)))
