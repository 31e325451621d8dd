"""SGD, with momentum, dampening and Nesterov's."""

from __future__ import annotations

from typing import Any

from port.pairs.expression import Expression
from port.pairs.optimizers.optimizer_pair import OptimizerPair, Options, chained, gradient, rated


def _sgd(options: Options) -> Expression:
    momentum, nesterov = options["momentum"], bool(options["nesterov"])
    named: dict[str, Any] = {"nesterov": True} if nesterov else {}
    if _is_zero(momentum):
        return chained(*gradient(options), Expression("optax.sgd", (options["lr"],)))
    if _is_zero(options["dampening"]):
        sgd = Expression("optax.sgd", (options["lr"],), {"momentum": momentum, **named})
        return chained(*gradient(options), sgd)
    damped = Expression(
        "port.transforms.scale_by_torch_momentum", (momentum,), {"dampening": options["dampening"], **named}
    )
    return chained(*gradient(options), damped, rated(options))


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


SGD = OptimizerPair(
    torch="torch.optim.SGD",
    name="sgd",
    defaults={
        "lr": 1e-3,
        "momentum": 0.0,
        "dampening": 0.0,
        "weight_decay": 0.0,
        "nesterov": False,
        "maximize": False,
    },
    chain=_sgd,
    state={
        "TraceState": {"trace": "momentum_buffer"},
        "TorchMomentumState": {"trace": "momentum_buffer", "started": "momentum_buffer"},
    },
    flags={"started": "momentum_buffer"},
    schedules_momentum="momentum",
    counts=False,
    complex_alike=True,
    notes=("O1", "O2"),
)
