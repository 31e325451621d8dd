"""Expressions for fixed tables evaluate to exactly the same table."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.translation.ir.expr import code
from port.translation.ir.syntax import source
from port.translation.structure.init_inference.formulas import formula

TABLES = {
    "jnp.full((2, 3), 0.1, d)": torch.full((2, 3), 0.1),
    "jnp.arange(6, dtype=d)": torch.arange(6),
    "jnp.arange(0, 24, 2, dtype=d)": torch.arange(0, 24, 2).float(),
    "jnp.arange(30, -10, -1, dtype=d).reshape((4, 10))": torch.arange(30, -10, -1).reshape(4, 10),
    "jnp.eye(5, dtype=d)": torch.eye(5),
    "jnp.tril(jnp.full((1, 6, 6), True, d))": torch.tril(torch.ones(1, 6, 6)).bool(),
    "jnp.triu(jnp.full((5, 7), -jnp.inf, d), k=1)": torch.full((5, 7), -torch.inf).triu_(1),
    "jnp.tril(jnp.full((4, 6), 2.5, d), k=-1)": 2.5 * torch.ones(4, 6).tril_(-1),
    "jnp.array([0.1, 0.25, -3.0], d)": torch.tensor([0.1, 0.25, -3.0]),
    "jnp.full((0, 3), 0.0, d)": torch.zeros(0, 3),
}


@pytest.mark.parametrize("text", TABLES)
def test_it_gives_the_table(text: str) -> None:
    array = TABLES[text].numpy()
    made = formula(array, code("d"))
    assert made is not None and source(made) == text
    values = np.asarray(eval(text, {"jnp": jnp, "d": int if array.dtype == np.int64 else array.dtype}))
    assert values.dtype.kind == array.dtype.kind
    assert np.array_equal(values, array)


@pytest.mark.parametrize(
    "array",
    [
        torch.sin(torch.arange(30.0)),
        torch.arange(40).flip(0).roll(1),
        torch.ones(5, 5) - torch.eye(5),
        torch.linspace(0, 1, 33),
        torch.tril(torch.rand(6, 6)),
    ],
)
def test_what_is_none_of_the_plain_ones_has_none(array: torch.Tensor) -> None:
    assert formula(array.numpy(), code("d")) is None
