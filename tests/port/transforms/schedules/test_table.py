"""A written-out schedule: its values, and its end."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch.optim.lr_scheduler import LambdaLR

from port import transforms
from port.errors import UsageError

BEYOND = "the schedule is tabulated for 5 steps; step 7 is beyond"


def test_lambda_lr(torch_rates: Any, rates: Any) -> None:
    want = torch_rates(lambda optimizer: LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch) ** 0.5), 12)
    got = rates(transforms.tabulated(want), 12)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, want)


def test_a_concrete_count_beyond_is_refused_at_once() -> None:
    schedule = transforms.tabulated(np.arange(5.0))
    for count in (7, np.int32(7), jnp.int32(7)):
        with pytest.raises(UsageError, match=BEYOND):
            schedule(count)


def test_a_traced_count_beyond_is_refused_when_it_comes() -> None:
    schedule = jax.jit(transforms.tabulated(np.arange(5.0)))
    assert float(schedule(jnp.int32(4))) == 4.0
    with pytest.raises(Exception, match=BEYOND):
        jax.block_until_ready(schedule(jnp.int32(7)))


def test_in_a_scan_and_under_vmap_and_grad() -> None:
    schedule = transforms.tabulated(np.arange(5.0) ** 2)
    np.testing.assert_array_equal(
        jax.lax.scan(lambda count, _: (count + 1, schedule(count)), jnp.int32(0), length=5)[1], np.arange(5.0) ** 2
    )
    scaled = jax.jit(jax.grad(lambda x, count: x * schedule(count)))
    assert float(scaled(2.0, jnp.int32(3))) == 9.0
    several = jax.jit(jax.vmap(schedule))
    np.testing.assert_array_equal(several(jnp.arange(2, 5)), [4.0, 9.0, 16.0])
    with pytest.raises(Exception, match=BEYOND):
        jax.block_until_ready(several(jnp.arange(4, 8)))


def test_the_host_is_called_in_the_branch_beyond_alone() -> None:
    """The program's only callback stands inside a conditional."""
    jaxpr = jax.make_jaxpr(transforms.tabulated(np.arange(5.0)))(jnp.int32(0)).jaxpr
    outside = [equation.primitive.name for equation in jaxpr.eqns]
    assert "pure_callback" not in outside
    (conditional,) = [equation for equation in jaxpr.eqns if equation.primitive.name == "cond"]
    calls = [["pure_callback" in str(branch)] for branch in conditional.params["branches"]]
    assert sorted(calls) == [[False], [True]]


@pytest.mark.parametrize("values", [[], [[1.0]], 3.0])
def test_a_table_is_one_row(values: Any) -> None:
    with pytest.raises(UsageError, match="one row of numbers"):
        transforms.tabulated(values)
