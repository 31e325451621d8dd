"""Max pooling against torch's, in float64: values, indices, gradients; with ties and with negative numbers alone."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from flax import nnx

import port.nn.functional as ours
from port.errors import UsageError

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

LENGTHS = (9, 7, 6)
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
ADAPTIVE = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
FRACTIONAL = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}


def random(spatial: int, batch: tuple[int, ...] = (2,), ties: bool = False) -> np.ndarray:
    """All negative: a zero of the padding would win. With ties, one of three numbers each."""
    x = -np.abs(np.random.default_rng(0).normal(1, 2, (*batch, 3, *LENGTHS[:spatial])))
    return np.round(np.clip(x, -2, 0)) if ties else x


def equal(theirs: Any, twin: Any, x: np.ndarray, spatial: int) -> bool:
    """Whether values, indices where there are some, and gradients are the same to the last bit."""
    channels = -spatial - 1
    tensor = torch.from_numpy(x).requires_grad_()
    expected = theirs(tensor)
    values, *indices = expected if isinstance(expected, tuple) else (expected,)
    cotangent = np.random.default_rng(1).normal(size=values.shape)
    values.backward(torch.from_numpy(cotangent))

    def call(x: jax.Array) -> tuple[jax.Array, Any]:
        y = twin(x)
        return (y[0], y[1:]) if isinstance(y, tuple) else (y, ())

    @jax.jit
    def run(x: jax.Array) -> Any:
        y, pull_back, rest = jax.vjp(call, x, has_aux=True)
        return y, rest, pull_back(jnp.moveaxis(jnp.asarray(cotangent), channels, -1))[0]

    got, got_indices, gradient = jax.tree.map(
        lambda a: np.moveaxis(np.asarray(a), -1, channels), run(np.moveaxis(x, channels, -1))
    )
    assert len(indices) == len(got_indices)
    pairs = [(got, values.detach()), *zip(got_indices, indices, strict=True)]
    same = all(np.array_equal(a, b.numpy(), equal_nan=True) for a, b in pairs)
    # Overlapping windows' gradients are added in another order.
    return same and got.shape == tuple(values.shape) and bool(np.abs(gradient - tensor.grad.numpy()).max() < 1e-14)


def options() -> list[dict[str, Any]]:
    sizes = [(2, 3, 4), (4, 2, 3)], [None, (1, 3, 2)], [0, (1, 1, 1)], [1, (2, 1, 1)]
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    return [dict(zip(names, values, strict=True)) for values in product(*sizes, [False, True], [False, True])]


def check_max(spatial: int, given: dict[str, Any], ties: bool) -> None:
    given = {name: v[:spatial] if isinstance(v, tuple) else v for name, v in given.items()}
    assert equal(partial(MAX[spatial], **given), partial(ours.max_pool, **given), random(spatial, ties=ties), spatial)


@pytest.mark.parametrize("given", options()[3::7], ids=str)
def test_W20_a_max_pool(given: dict[str, Any], float64: None) -> None:
    check_max(2, given, ties=True)


@pytest.mark.sweep
@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_W20_every_max_pool(spatial: int, ties: bool, float64: None, subtests: pytest.Subtests) -> None:
    for given in options():
        with subtests.test(str(given)):
            check_max(spatial, given, ties)


def test_W20_flaxs_pads_with_infinity_and_gives_the_first_tie_the_gradient(float64: None) -> None:
    theirs = partial(F.max_pool2d, kernel_size=3, stride=2, padding=1)
    assert equal(
        theirs,
        partial(nnx.max_pool, window_shape=(3, 3), strides=(2, 2), padding=((1, 1), (1, 1))),
        random(2, ties=True),
        2,
    )


@pytest.mark.parametrize(
    "fault",
    [
        # Padded with zeros.
        lambda x: nnx.max_pool(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (2, 2)),
        # The last tie, by turning the image.
        lambda x: ours.max_pool(x[:, ::-1, ::-1], (3, 3), (2, 2), 1)[:, ::-1, ::-1],
        # All ties, each a share.
        lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") * 1.01,
    ],
)
def test_W20_other_padding_and_other_ties_are_seen(fault: Any, float64: None) -> None:
    theirs = partial(F.max_pool2d, kernel_size=3, stride=2, padding=1)
    x = random(2, ties=True)
    assert equal(theirs, partial(ours.max_pool, kernel_size=(3, 3), stride=2, padding=1), x, 2)
    assert not equal(theirs, fault, x, 2)


def test_W20_a_window_of_infinities_has_an_index_inside_the_input(float64: None) -> None:
    given = {"stride": 2, "padding": 1, "return_indices": True}
    x = np.full((1, 3, *LENGTHS[:2]), -np.inf)
    x[0, 0, 4:] = 1
    theirs, twin = partial(F.max_pool2d, kernel_size=2, **given), partial(ours.max_pool, kernel_size=(2, 2), **given)
    assert equal(theirs, twin, x, 2)
    without = ours.max_pool(np.moveaxis(x, 1, -1), (2, 2), 2, 1)
    np.testing.assert_array_equal(without, twin(np.moveaxis(x, 1, -1))[0])


def test_W20_not_a_number_is_the_largest(float64: None) -> None:
    x = np.moveaxis(random(2), 1, -1)
    x[0, 3, 2, 1] = np.nan
    for given in ({}, {"dilation": (1, 2)}):
        y = ours.max_pool(jnp.asarray(x), (2, 2), **given)
        z = F.max_pool2d(torch.from_numpy(np.moveaxis(x, -1, 1)), 2, **given).numpy()
        assert np.isnan(z).any()
        np.testing.assert_array_equal(y, np.moveaxis(z, 1, -1))


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 7), (3, None), (13, 4)], ids=str)
@pytest.mark.parametrize("return_indices", [False, True])
def test_W19_an_adaptive_max_pool(size: tuple[Any, ...], return_indices: bool, float64: None) -> None:
    given = {"output_size": size, "return_indices": return_indices}
    theirs, twin = partial(F.adaptive_max_pool2d, **given), partial(ours.adaptive_max_pool, **given)
    assert equal(theirs, twin, random(2, ties=True), 2)


@pytest.mark.parametrize("spatial", [1, 3])
def test_W19_without_a_batch_and_in_other_dimensions(spatial: int, float64: None) -> None:
    given = {"output_size": (4, 5, 4)[:spatial], "return_indices": True}
    assert equal(
        partial(ADAPTIVE[spatial], **given), partial(ours.adaptive_max_pool, **given), random(spatial, ()), spatial
    )
    other = partial(ours.adaptive_max_pool, **(given | {"output_size": (3, 5, 4)[:spatial]}))
    x = random(spatial, ())
    assert other(jnp.moveaxis(x, 0, -1))[0].shape != ours.adaptive_max_pool(jnp.moveaxis(x, 0, -1), **given)[0].shape


def test_G3_equals_share_the_gradient_of_a_plain_maximum_and_not_of_a_pool(float64: None) -> None:
    x = jnp.zeros((1, 2, 2, 1))
    assert (jax.grad(lambda x: x.max((1, 2)).sum())(x) == 1 / 4).all()
    pooled = jax.grad(lambda x: ours.adaptive_max_pool(x, (1, 1)).sum())(x)
    assert pooled.ravel().tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("spatial", "given"),
    [
        (2, {"kernel_size": (2, 3), "output_size": (4, 3)}),
        (2, {"kernel_size": (3, 2), "output_ratio": (0.5, 0.7), "return_indices": True}),
        (2, {"kernel_size": (2, 2), "output_size": 1}),
        (3, {"kernel_size": (2, 3, 2), "output_size": (5, 3, 4), "return_indices": True}),
        (3, {"kernel_size": (2, 2, 2), "output_ratio": 0.6}),
    ],
)
def test_a_fractional_max_pool(spatial: int, given: dict[str, Any], float64: None) -> None:
    samples = np.random.default_rng(5).uniform(size=(2, 3, spatial))
    x = random(spatial, ties=spatial == 3)
    theirs = partial(FRACTIONAL[spatial], _random_samples=torch.from_numpy(samples), **given)
    assert equal(theirs, partial(ours.fractional_max_pool, random_samples=jnp.asarray(samples), **given), x, spatial)
    if given.get("output_size") != 1:  # one window ends with the axis, whatever the sample
        other = jnp.asarray(samples[..., ::-1])
        assert not equal(
            theirs, partial(ours.fractional_max_pool, random_samples=other, **given), random(spatial), spatial
        )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("given", [{"ceil_mode": True}, {"dilation": 2}])
def test_the_dtype_is_kept(given: dict[str, Any], dtype: str, float64: None) -> None:
    pool = partial(ours.max_pool, kernel_size=(3, 2), **given)
    shape = jax.ShapeDtypeStruct((2, 5, 7, 3), jnp.dtype(dtype))
    output, gradient = jax.eval_shape(lambda x: (pool(x), jax.grad(lambda x: pool(x).sum())(x)), shape)
    assert output.dtype == shape.dtype
    assert gradient == shape


def test_integers_have_a_maximum_too() -> None:
    x = -np.random.default_rng(0).integers(1, 99, (2, 5, 7, 3))
    expected = F.max_pool2d(torch.from_numpy(np.moveaxis(x, -1, 1)), 3, 2, 1).numpy()
    np.testing.assert_array_equal(ours.max_pool(jnp.asarray(x), (3, 3), 2, 1), np.moveaxis(expected, 1, -1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ours.max_pool(x, (3, 3), padding=2), "at most half"),
        (lambda x: ours.max_pool(x, (9, 3)), "does not fit"),
        (lambda x: ours.max_pool(x[:, :1], (2, 2), 1, (2, 0), (3, 1)), "nothing but padding"),
        (lambda x: ours.max_pool(x, (2,)), "1 spatial axes need an input of 2 axes"),
        (lambda x: ours.fractional_max_pool(x, (2, 2), random_samples=x[0]), "either an output_size"),
        (lambda x: ours.fractional_max_pool(x, (2, 2), 3, random_samples=x[0]), r"\(2, 3, 2\), \(N, C"),
        (lambda x: ours.fractional_max_pool(x, (2, 2), 5, random_samples=x[0]), "do not fit"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    x = jnp.ones((2, 5, 7, 3))
    with pytest.raises(UsageError, match=message):
        call(x)
