"""Readable forms of numbers have exactly the same values."""

from __future__ import annotations

import math

import pytest

from port.translation.ir import syntax
from port.translation.structure.init_inference.numbers import number, readable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.02, "0.02"),
        (0.020000000000000004, "0.02"),
        (0.02 / math.sqrt(24), "0.01 / math.sqrt(6)"),
        (0.02 / math.sqrt(6), "0.02 / math.sqrt(6)"),
        (-1 / math.sqrt(768), "-(1 / math.sqrt(768))"),
        (1e-6, "1e-06"),
        (0.8796256610342398, "0.8796256610342398"),
        (math.inf, "1e309"),
    ],
)
def test_a_number(value: float, text: str) -> None:
    assert syntax.source(number(value)) == text
    assert math.isclose(eval(text), value, rel_tol=1e-12)


@pytest.mark.parametrize("value", [math.pi, math.e / 7, 1 / 3, 0.1 + 0.02 / 3])
def test_what_is_no_quotient_stays(value: float) -> None:
    assert eval(syntax.source(number(value))) == value


def test_constants_by_their_names() -> None:
    source = "f(jnp.full((2,), 0.0, d), jnp.full(s, 3.0, d), nnx.initializers.constant(1.0), jnp.full(s, True, b))"
    made = syntax.source(readable(syntax.parsed(source)))
    assert made == "f(jnp.zeros((2,), d), jnp.full(s, 3.0, d), nnx.initializers.ones, jnp.ones(s, b))"
