"""Copies of modules that hold what an earlier run computed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.copies import copied

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class KeepsItsWeights(nn.Module):
    """Attention that shows, after a run, what it looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 5)
        self.weights: Tensor | None = None
        self.history: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.weights = torch.softmax(self.score(x), dim=-1)
        return self.weights @ torch.arange(10, dtype=x.dtype).view(5, 2)


def test_a_module_that_has_run() -> None:
    module = KeepsItsWeights()
    module(torch.randn(3, 4))
    module.history.append(module.weights)
    before = module.weights
    copy = copied(module)
    assert copy.score.weight is not module.score.weight and copy.score.weight.requires_grad
    assert not copy.weights.requires_grad and torch.equal(copy.weights, before)
    assert copy.history[0] is copy.weights  # one tensor still
    made = port.translate(module, torch.randn(3, 4))
    assert made.proof is not None and made.proof.agrees
    assert module.weights is before and before.requires_grad


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_computed_weight() -> None:
    module = nn.utils.weight_norm(nn.Linear(3, 2))
    copy = copied(module)
    x = torch.randn(4, 3)
    torch.testing.assert_close(copy(x), module(x), rtol=0, atol=0)
    copy(x).sum().backward()
    assert copy.weight_g.grad is not None and module.weight_g.grad is None
