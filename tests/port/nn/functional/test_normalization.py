"""Norms of an array's own statistics against torch's."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UsageError

CASES = {
    "batch": (partial(F.batch_norm, running_mean=None, running_var=None, training=True), ours.batch_norm),
    "instance": (F.instance_norm, ours.instance_norm),
    "layer": (partial(F.layer_norm, normalized_shape=(4,)), partial(ours.layer_norm, normalized_shape=(4,))),
    "group": (partial(F.group_norm, num_groups=2), partial(ours.group_norm, num_groups=2)),
}


def worst(against_torch: Any, theirs: Any, twin: Any, affine: bool) -> float:
    random = np.random.default_rng(0)
    inputs = [random.normal(2, 3, (2, 4, 3, 5)), *([random.normal(size=4), random.normal(size=4)] if affine else [])]

    def named(call: Any, image: Any, *parameters: Any) -> Any:
        return call(image, **dict(zip(("weight", "bias"), parameters, strict=False)), eps=1e-3)

    def of_ours(image: Any, *parameters: Any) -> Any:
        return jnp.moveaxis(named(twin, jnp.moveaxis(image, 1, -1), *parameters), -1, 1)

    def of_theirs(image: Any, *parameters: Any) -> Any:
        if theirs is not CASES["layer"][0]:
            return named(theirs, image, *parameters)
        return named(theirs, image.movedim(1, -1), *parameters).movedim(-1, 1)

    return max(against_torch(of_theirs, of_ours, *inputs).values())


@pytest.mark.thin(8)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, affine: bool, against_torch: Any) -> None:
    assert worst(against_torch, *CASES[case], affine) <= 1e-11


def test_another_norm_is_seen(against_torch: Any) -> None:
    assert worst(against_torch, CASES["group"][0], CASES["instance"][1], True) > 1e-3


@pytest.mark.sweep
def test_a_mean_far_from_zero_is_no_loss(against_torch: Any) -> None:
    row = np.random.default_rng(0).normal(1e6, 1, (2, 8))
    seen = against_torch(
        partial(F.layer_norm, normalized_shape=(8,)), partial(ours.layer_norm, normalized_shape=(8,)), row
    )
    assert max(seen.values()) <= 1e-9


def test_other_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="layer_norm"):
        ours.layer_norm(jnp.ones((2, 3)), (2,))


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UsageError, match="divisible"):
        ours.group_norm(jnp.ones((2, 3, 5)), 2)
