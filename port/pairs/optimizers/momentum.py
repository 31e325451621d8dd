"""SGD, with momentum, dampening and Nesterov momentum."""

from __future__ import annotations

from typing import Any

from port.pairs.expression import Expression
from port.pairs.optimizers.optimizer_pair import OptimizerPair, Options, chained, gradient, rated
from port.pairs.optimizers.options import ANY_NUMBER, at_least_0, number, switches

_ABOVE_0, _NONE = number(lambda value: value > 0), number(lambda value: value == 0)


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


def _nesterov(options: Options) -> str | None:
    momentum, dampening = options["momentum"], options["dampening"]
    if not options["nesterov"] or (_ABOVE_0(momentum) and _NONE(dampening)):
        return None
    return f"nesterov needs a momentum above 0 and no dampening, got {momentum!r:.60} and {dampening!r:.60}"


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
    takes={
        **at_least_0("lr", "momentum", "weight_decay"),
        "dampening": ANY_NUMBER,
        **switches("nesterov", "maximize"),
    },
    conflict=_nesterov,
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
