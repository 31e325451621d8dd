"""`expect`: shapes that were written for pass, all others are refused in a sentence."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from port.nn import functional as F


@pytest.mark.parametrize(
    ("shape", "lengths", "known"),
    [
        ((5, 32, 32, 3), "n 32 32 3", {}),
        ((5, 7, 9, 3), "n h w 3", {}),
        ((4, 4), "n n", {}),
        ((4, 64), "n t; t <= 64", {}),
        ((4, 6), "n t", {"n": 4}),
        ((12,), "n; n % 4 == 0; n >= 8", {}),
        ((3, 8), "n axis1; axis1 == 2 * t", {"t": 4}),
        ((2, 6), "n t; max(n, t) < u", {"u": 7}),
    ],
)
def test_what_was_written_for(shape: tuple[int, ...], lengths: str, known: dict[str, int]) -> None:
    F.expect(jnp.zeros(shape), lengths, **known)


@pytest.mark.parametrize(
    ("shape", "lengths", "known", "sentence"),
    [
        ((2, 40, 40, 3), "n 32 32 3", {}, "axis 1 has length 40, and this was written for 32"),
        ((2, 3), "n 32 32 3", {}, "it has 2 axes, not 4"),
        ((4, 1), "n n", {}, "axis 1 has length 1, and this was written for n = 4"),
        ((4, 65), "n t; t <= 64", {}, "this was written for t <= 64, and t = 65"),
        ((1, 6), "n t", {"n": 4}, "axis 0 has length 1, and this was written for n = 4"),
        ((3, 9), "n axis1; axis1 == 2 * t", {"t": 4}, "this was written for axis1 == 2 * t, and t = 4, axis1 = 9"),
        ((5,), "n 7", {}, "expected an array of shape (n, 7), got (5,)"),
        ((2, 0), "n t; 8 % t == 0", {}, "this was written for 8 % t == 0, and t = 0"),
    ],
)
def test_what_was_not(shape: tuple[int, ...], lengths: str, known: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        F.expect(jnp.zeros(shape), lengths, **known)


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("expected an array of shape (n, t), got NoneType")):
        F.expect(None, "n t")  # type: ignore[arg-type]


def test_it_costs_nothing_under_jit_and_is_checked_for_each_shape() -> None:
    def checked(x: jax.Array) -> jax.Array:
        F.expect(x, "n 3; n <= 4")
        return 2 * x

    assert str(jax.make_jaxpr(checked)(jnp.ones((2, 3)))) == str(jax.make_jaxpr(lambda x: 2 * x)(jnp.ones((2, 3))))
    function = jax.jit(checked)
    assert function(jnp.ones((4, 3))).shape == (4, 3)
    with pytest.raises(ValueError, match="written for n <= 4, and n = 5"):
        function(jnp.ones((5, 3)))
