"""Adam and its variants: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from typing import Any

from port.pairs.expression import Expression
from port.pairs.optimizers.optimizer_pair import (
    CHANGE_NOTHING,
    OptimizerPair,
    Options,
    chained,
    decoupled,
    given,
    gradient,
    rated,
)
from port.pairs.optimizers.options import BETAS, Takes, at_least_0, switches

_ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "maximize": False}
_MOMENTS = {"count": "step", "mu": "exp_avg", "nu": "exp_avg_sq"}


def _takes(*on_or_off: str) -> dict[str, Takes]:
    return {**at_least_0("lr", "eps", "weight_decay"), "betas": BETAS, **switches("maximize", *on_or_off)}


def _betas(options: Options) -> dict[str, Any]:
    """Return what differs from the defaults, which optax's Adam and ours share with torch."""
    b1, b2 = options["betas"]
    return given(options, b1=(b1, 0.9), b2=(b2, 0.999), eps=(options["eps"], 1e-8))


def _adam(options: Options) -> Expression:
    if options.get("decoupled_weight_decay"):
        return _adamw(options)
    if options["amsgrad"]:
        amsgrad = Expression("port.transforms.scale_by_torch_amsgrad", (), _betas(options))
        return chained(*gradient(options), amsgrad, rated(options))
    return chained(*gradient(options), Expression("optax.adam", (options["lr"],), _betas(options)))


def _adamw(options: Options) -> Expression:
    first = gradient(options, decayed=False)
    if options["amsgrad"]:
        amsgrad = Expression("port.transforms.scale_by_torch_amsgrad", (), _betas(options))
        return chained(*first, amsgrad, *decoupled(options), rated(options))
    # Always passed: optax's default is a hundredth of torch's (O4).
    named = {**_betas(options), "weight_decay": options["weight_decay"]}
    return chained(*first, Expression("optax.adamw", (options["lr"],), named))


def _adamax(options: Options) -> Expression:
    return chained(*gradient(options), Expression("optax.adamax", (options["lr"],), _betas(options)))


def _nadam(options: Options) -> Expression:
    b1, b2 = options["betas"]
    named = {"b1": b1, "b2": b2, "eps": options["eps"], "momentum_decay": options["momentum_decay"]}
    return _scaled(options, Expression("port.transforms.scale_by_torch_nadam", (), named))


def _radam(options: Options) -> Expression:
    b1, b2 = options["betas"]
    named = {"b1": b1, "b2": b2, "eps": options["eps"]}
    return _scaled(options, Expression("port.transforms.scale_by_torch_radam", (), named))


def _scaled(options: Options, scaled: Expression) -> Expression:
    """Chain the weight decay before or after the moments."""
    if options["decoupled_weight_decay"]:
        return chained(*gradient(options, decayed=False), scaled, *decoupled(options), rated(options))
    return chained(*gradient(options), scaled, rated(options))


ADAM = OptimizerPair(
    torch="torch.optim.Adam",
    name="adam",
    defaults={**_ADAM, "amsgrad": False, "decoupled_weight_decay": False},
    chain=_adam,
    takes=_takes("amsgrad", "decoupled_weight_decay"),
    state={"ScaleByAdamState": _MOMENTS, "TorchAmsgradState": {**_MOMENTS, "nu_max": "max_exp_avg_sq"}},
    schedules_momentum="betas",
    remark=lambda options: (
        "its groups have decoupled_weight_decay=True, which makes torch.optim.Adam a torch.optim.AdamW: it is moved "
        "as one"
        if options.get("decoupled_weight_decay")
        else None
    ),
    notes=("O3", "O8"),
)
ADAMW = OptimizerPair(
    torch="torch.optim.AdamW",
    name="adamw",
    defaults={**_ADAM, "weight_decay": 1e-2, "amsgrad": False},
    chain=_adamw,
    takes=_takes("amsgrad"),
    state=ADAM.state,
    ignored=CHANGE_NOTHING | {"decoupled_weight_decay"},
    schedules_momentum="betas",
    foreign=lambda options: (
        "has decoupled_weight_decay=False, but torch.optim.AdamW's is True: this is the state of torch.optim.Adam"
        if options.get("decoupled_weight_decay") is False
        else None
    ),
    notes=("O4", "O8"),
)
ADAMAX = OptimizerPair(
    torch="torch.optim.Adamax",
    name="adamax",
    defaults={**_ADAM, "lr": 2e-3},
    chain=_adamax,
    takes=_takes(),
    state={"ScaleByAdamState": {"count": "step", "mu": "exp_avg", "nu": "exp_inf"}},
    schedules_momentum="betas",
    notes=("O11",),
)
NADAM = OptimizerPair(
    torch="torch.optim.NAdam",
    name="nadam",
    defaults={**_ADAM, "lr": 2e-3, "momentum_decay": 4e-3, "decoupled_weight_decay": False},
    chain=_nadam,
    takes={**_takes("decoupled_weight_decay"), **at_least_0("momentum_decay")},
    state={"TorchNadamState": {**_MOMENTS, "mu_product": "mu_product"}},
    scalars=frozenset({"mu_product"}),
    schedules_momentum="betas",
    notes=("O9",),
)
RADAM = OptimizerPair(
    torch="torch.optim.RAdam",
    name="radam",
    defaults={**_ADAM, "decoupled_weight_decay": False},
    chain=_radam,
    takes=_takes("decoupled_weight_decay"),
    state={"TorchRadamState": _MOMENTS},
    schedules_momentum="betas",
    notes=("O10",),
)
