"""Operators that broadcast axes of length 1."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("order", orders_of(3))
@pytest.mark.parametrize("size", [(2, 3, 4), (2, -1, -1), (5, 2, -1, 4)])
def test_in_any_order(order: tuple[int, ...], size: tuple[int, ...]) -> None:
    made, expected = lowered("aten.expand.default", random(2, 1, 4), list(size), orders=[order])
    assert apart(made, expected) == 0


def test_what_stays_as_it_is_is_not_written() -> None:
    made, expected = lowered("aten.expand.default", random(2, 1), [2, -1], orders=[(1, 0)])
    assert made.texts == [] and apart(made, expected) == 0


def test_as_a_person_writes_it() -> None:
    made, _ = lowered("aten.expand.default", random(2, 1), [-1, 3], orders=[(1, 0)])
    assert made.texts == ["y0 = jnp.broadcast_to(x0, (3, x0.shape[-1]))"]


class Repeated(nn.Module):
    """Each channel several times, of an array whose channels come last in JAX."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        n, channels, height, width = y.shape
        y = y[:, :, None].expand(-1, -1, 3, -1, -1)
        return y.reshape(n, channels * 3, height, width)


@pytest.mark.sweep
def test_a_length_is_read_off_what_was_there_before_the_new_axis() -> None:
    made = port.translate(Repeated().double(), torch.randn(2, 3, 5, 6, dtype=torch.float64))
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    (line,) = (line for line in made.source.splitlines() if "broadcast_to(" in line or "expand_dims(" in line)
    assert "jnp.expand_dims(y" in line
