"""An optimizer and a schedule in PyTorch."""

from __future__ import annotations

from typing import Any

import torch


class Lion(torch.optim.Optimizer):
    """Steps by the sign of a mixture of momentum and gradient (arXiv 2302.06675)."""

    def __init__(
        self,
        params: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = -parameter.grad if group["maximize"] else parameter.grad
                state = self.state[parameter]
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                momentum = state["exp_avg"]
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(group["lr"] * torch.sign(b1 * momentum + (1 - b1) * gradient))
                momentum.mul_(b2).add_(gradient, alpha=1 - b2)


class InverseSquareRoot(torch.optim.lr_scheduler.LRScheduler):
    """The rate rises for ``warm_up`` steps, then falls as one over the square root of the step."""

    def __init__(self, optimizer: torch.optim.Optimizer, warm_up: int, last_epoch: int = -1) -> None:
        self.warm_up = warm_up
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        step = self.last_epoch + 1
        return [base * min(step / self.warm_up, (self.warm_up / step) ** 0.5) for base in self.base_lrs]
