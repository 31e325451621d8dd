"""A layer and a loss in PyTorch."""

from __future__ import annotations

import torch


class Gate(torch.nn.Module):
    """(…, inputs) → (…, outputs): a linear map times its own sigmoid, without a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, inputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight.T
        return y * torch.sigmoid(y)


class FocalLoss(torch.nn.Module):
    """Cross-entropy of logits (N, C, …) and labels (N, …) that counts less what is right already."""

    def __init__(self, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__()
        self.gamma, self.reduction = gamma, reduction

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        log_p = logits.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
        losses = -((1 - log_p.exp()) ** self.gamma) * log_p
        return losses.mean() if self.reduction == "mean" else losses.sum()
