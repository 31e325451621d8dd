"""Unfold and fold against torch's, in float64."""

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

import port.nn.functional as ours
from port.errors import UsageError

OPTIONS = [
    dict(zip(("kernel_size", "dilation", "padding", "stride"), values, strict=True))
    for values in product([(3, 2), 2], [1, (1, 2)], [0, (1, 2)], [1, (2, 3)])
]


def image(batch: tuple[int, ...] = (2,)) -> np.ndarray:
    return np.random.default_rng(0).normal(0.5, 2, (*batch, 3, 7, 6))


def unfold(against_torch: Any, given: dict[str, Any], x: np.ndarray, **faults: Any) -> float:
    theirs, twin = partial(F.unfold, **given), partial(ours.unfold, **(given | faults))
    return max(against_torch(theirs, lambda x: jnp.moveaxis(twin(x), -1, -2), x, channels=-3).values())


@pytest.mark.parametrize("given", OPTIONS[1::3], ids=str)
def test_blocks_and_their_sum(given: dict[str, Any], against_torch: Any) -> None:
    assert unfold(against_torch, given, image()) < 1e-14
    blocks = np.random.default_rng(1).normal(size=F.unfold(torch.from_numpy(image()), **given).shape)
    theirs, twin = partial(F.fold, output_size=(7, 6), **given), partial(ours.fold, output_size=(7, 6), **given)
    seen = against_torch(theirs, lambda x: jnp.moveaxis(twin(x), -1, 1), blocks, channels=1)
    assert max(seen.values()) < 1e-14


@pytest.mark.sweep
def test_no_batch(against_torch: Any) -> None:
    assert unfold(against_torch, OPTIONS[-1], image(())) < 1e-14
    blocks = jnp.moveaxis(F.unfold(torch.from_numpy(image(())), 2).numpy(), 0, 1)
    expected = F.fold(F.unfold(torch.from_numpy(image(())), 2), (7, 6), 2).numpy()
    np.testing.assert_allclose(np.moveaxis(ours.fold(blocks, (7, 6), 2), -1, 0), expected, rtol=1e-6)


def test_another_order_within_a_block_and_other_strides_are_seen(against_torch: Any) -> None:
    given = {"kernel_size": (2, 2), "stride": 2, "padding": (1, 0)}
    x = image()[..., :5, :]  # 3 × 3 blocks
    assert unfold(against_torch, given, x) < 1e-14
    assert unfold(against_torch, given, x, dilation=(1, 1), padding=(1, 0), stride=(2, 2), kernel_size=2) < 1e-14
    assert unfold(against_torch, given, x, dilation=(2, 1), padding=(1, 0), stride=(2, 2)) > 1e-2

    def window_first(x: jax.Array) -> jax.Array:
        """Of kH·kW·C elements, C the faster."""
        blocks = ours.unfold(x, **given)
        return blocks.reshape(2, -1, 3, 4).swapaxes(-1, -2).reshape(blocks.shape).swapaxes(-1, -2)

    assert max(against_torch(partial(F.unfold, **given), window_first, x, channels=-3).values()) > 1e-2


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str, float64: None) -> None:
    given = jax.ShapeDtypeStruct((2, 7, 6, 3), jnp.dtype(dtype))
    blocks = jax.eval_shape(partial(ours.unfold, kernel_size=2), given)
    assert blocks.dtype == given.dtype
    assert jax.eval_shape(partial(ours.fold, output_size=(7, 6), kernel_size=2), blocks) == given


def test_blocks_of_another_image_are_refused() -> None:
    for shape in ((2, 30, 13), (2, 29, 12)):
        with pytest.raises(UsageError, match=r"make blocks of shape \(2, 30, 12\)"):
            ours.fold(jnp.ones(shape), (7, 6), 2)
