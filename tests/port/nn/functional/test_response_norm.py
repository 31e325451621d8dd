"""Response normalisation over channels against torch's, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UsageError

# The short run has these functions too, through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

GIVEN = {"alpha": 0.3, "beta": 0.6, "k": 1.3}


def difference(against_torch: Any, theirs: Any, twin: Any, shape: tuple[int, ...] = (2, 7, 4, 5)) -> float:
    x = np.random.default_rng(0).normal(0.5, 2, shape)
    return max(against_torch(theirs, lambda x: jnp.moveaxis(twin(x), -1, 1), x, channels=1).values())


@pytest.mark.parametrize("size", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("shape", [(2, 7, 4, 5), (2, 7, 4)])
def test_local_response_norm(size: int, shape: tuple[int, ...], against_torch: Any) -> None:
    theirs, twin = partial(F.local_response_norm, size=size, **GIVEN), partial(ours.local_response_norm, **GIVEN)
    assert difference(against_torch, theirs, partial(twin, size=size), shape) < 1e-14
    assert difference(against_torch, theirs, partial(twin, size=size + 1), shape) > 1e-3


@pytest.mark.parametrize("size", [2, 3, 4, 5, 9])
def test_cross_map_lrn_and_its_gradient_which_is_not_its_own(size: int, against_torch: Any) -> None:
    theirs = torch.nn.CrossMapLRN2d(size, **GIVEN)
    assert difference(against_torch, theirs, partial(ours.cross_map_lrn, size=size, **GIVEN)) < 1e-13
    # The one that it is meant to be, and its own true gradient, are others.
    assert difference(against_torch, theirs, partial(ours.local_response_norm, size=size, **GIVEN)) > 1e-3
    undressed = partial(ours.cross_map_lrn.fun, size=size, **GIVEN)
    assert difference(against_torch, theirs, undressed) > 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("function", [ours.local_response_norm, ours.cross_map_lrn])
def test_the_dtype_is_kept(function: Any, dtype: str, float64: None) -> None:
    given = jax.ShapeDtypeStruct((2, 4, 3, 7), jnp.dtype(dtype))
    call = partial(function, size=3)
    output, gradient = jax.eval_shape(lambda x: (call(x), jax.grad(lambda x: call(x).sum())(x)), given)
    assert output == gradient == given


def test_other_than_four_axes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\(N, H, W, C\)"):
        ours.cross_map_lrn(jnp.ones((2, 4, 3)), 3)
