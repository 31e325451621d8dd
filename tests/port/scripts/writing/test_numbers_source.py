"""Which of an evaluation's numbers is a loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from port.scripts.writing.numbers_source import follow_weights


class Numbers(nn.Module):
    """Of a batch: how many are right, their share, and the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(5, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        logits = self.model(x)
        right = logits.argmax(1) == y
        return right.sum(), right.float().mean(), F.cross_entropy(logits, y)


def test_a_loss_follows_the_weights_and_a_count_does_not() -> None:
    module = Numbers().requires_grad_(requires_grad=False)
    inputs = {"x": torch.randn(7, 5), "y": torch.randint(0, 3, (7,))}
    assert follow_weights(module, inputs) == [False, False, True]
    assert not any(one.requires_grad for one in module.parameters())
