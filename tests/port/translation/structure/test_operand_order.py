"""A number comes first where it does in the original, although torch always receives the tensor first."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import port

pytestmark = pytest.mark.filterwarnings("ignore")


class Orders(nn.Module):
    def __init__(self, scale: float = 0.75) -> None:
        super().__init__()
        self.scale = scale
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = 0.5 * self.linear(x)
        y = torch.tanh(1 + y) + torch.sin(y * 3.0)
        z = self.scale * torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3)))
        return z * 0.25 + 2 * y


@pytest.mark.sweep
def test_a_number_stands_where_the_original_has_it() -> None:
    made = port.translate(Orders(), (torch.randn(3, 6),), construct=Orders)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    for said in (
        "y = 0.5 * self.linear(x)",
        "jnp.tanh(1 + y) + jnp.sin(y * 3.0)",
        "self.scale * jnp.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * y**3))",
        "z * 0.25 + 2 * y",
    ):
        assert said in made.source, made.source
