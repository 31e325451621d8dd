"""One call of every scheduler that is known, as a person writes it: what the cheat sheet shows, twin and all."""

from __future__ import annotations

from typing import Any

from port.pairs.expression import Expression, Function, Name


def _scheduler(name: str, *arguments: Any, module: str = "lr_scheduler", **options: Any) -> Expression:
    return Expression(f"torch.optim.{module}.{name}", (Name("optimizer"), *arguments), options)


_WARM_UP = _scheduler("LinearLR", start_factor=0.1, total_iters=5)
_COSINE = _scheduler("CosineAnnealingLR", T_max=95)

EXAMPLES: tuple[Function, ...] = tuple(
    Function(("optimizer",), call)
    for call in (
        _scheduler("StepLR", step_size=30, gamma=0.1),
        _scheduler("MultiStepLR", milestones=[30, 60], gamma=0.1),
        _scheduler("ConstantLR", factor=0.5, total_iters=5),
        _scheduler("LinearLR", start_factor=0.1, total_iters=5),
        _scheduler("ExponentialLR", gamma=0.95),
        _scheduler("PolynomialLR", total_iters=100, power=2.0),
        _scheduler("CosineAnnealingLR", T_max=100, eta_min=1e-5),
        _scheduler("CosineAnnealingWarmRestarts", T_0=10, T_mult=2),
        _scheduler("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=20),
        _scheduler("OneCycleLR", max_lr=0.1, total_steps=100),
        _scheduler("SWALR", swa_lr=0.05, module="swa_utils"),
        _scheduler("LambdaLR", lr_lambda=Function(("step",), 0.5)),
        _scheduler("MultiplicativeLR", lr_lambda=Function(("step",), 0.95)),
        _scheduler("ReduceLROnPlateau", factor=0.1, patience=10),
        _scheduler("SequentialLR", schedulers=[_WARM_UP, _COSINE], milestones=[5]),
        Expression("torch.optim.lr_scheduler.ChainedScheduler", ([_WARM_UP, _scheduler("ExponentialLR", gamma=0.95)],)),
    )
)
