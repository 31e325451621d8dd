"""ASGD, Muon, LBFGS; and SparseAdam, which has no counterpart."""

from __future__ import annotations

from typing import Any

from port.pairs.expression import Expression
from port.pairs.optimizers.optimizer_pair import OptimizerPair, Options, chained, given, gradient
from port.pairs.optimizers.options import (
    ANY_NUMBER,
    BETAS,
    COUNT,
    Takes,
    at_least_0,
    number,
    or_none,
    several,
    switches,
    whole,
)

_MUON_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ADJUSTED = ("original", "match_rms_adamw", "spectral_unclamped")
_LBFGS = {
    "lr": 1.0,
    "max_iter": 20,
    "max_eval": None,
    "tolerance_grad": 1e-7,
    "tolerance_change": 1e-9,
    "history_size": 100,
    "line_search_fn": None,
    "maximize": False,
}


def _asgd(options: Options) -> Expression:
    named = given(
        options, lambd=(options["lambd"], 1e-4), alpha=(options["alpha"], 0.75), t0=(float(options["t0"]), 1e6)
    )
    return chained(*gradient(options), Expression("port.transforms.torch_asgd", (options["lr"],), named))


def _muon(options: Options) -> Expression:
    named = given(
        options,
        weight_decay=(options["weight_decay"], 0.1),
        momentum=(options["momentum"], 0.95),
        nesterov=(options["nesterov"], True),
        ns_coefficients=(tuple(options["ns_coefficients"]), _MUON_COEFFICIENTS),
        eps=(options["eps"], 1e-7),
        ns_steps=(options["ns_steps"], 5),
        adjust_lr_fn=(options["adjust_lr_fn"], None),
    )
    return Expression("port.transforms.torch_muon", (options["lr"],), named)


def _lbfgs(options: Options) -> Expression:
    # torch's constructor replaces max_eval=None by this number.
    defaults = {**_LBFGS, "max_eval": options["max_iter"] * 5 // 4}
    named: dict[str, Any] = {name: options[name] for name in _LBFGS if name != "lr" and options[name] is not None}
    return Expression(
        "port.transforms.torch_lbfgs",
        (options["lr"],),
        {name: value for name, value in named.items() if value != defaults[name]},
    )


def _no_chain(options: Options) -> Expression:
    raise NotImplementedError("refused")


ASGD = OptimizerPair(
    torch="torch.optim.ASGD",
    name="asgd",
    defaults={"lr": 1e-2, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0.0, "maximize": False},
    chain=_asgd,
    takes={**at_least_0("lr", "lambd", "alpha", "weight_decay"), "t0": ANY_NUMBER, **switches("maximize")},
    state={"TorchAsgdState": {"count": "step", "eta": "eta", "mu": "mu", "ax": "ax"}},
    scalars=frozenset({"eta", "mu"}),
    scalars_anew=True,
    own_count=True,
    complex_alike=True,
)
MUON = OptimizerPair(
    torch="torch.optim.Muon",
    name="muon",
    defaults={
        "lr": 1e-3,
        "weight_decay": 0.1,
        "momentum": 0.95,
        "nesterov": True,
        "ns_coefficients": _MUON_COEFFICIENTS,
        "eps": 1e-7,
        "ns_steps": 5,
        "adjust_lr_fn": None,
    },
    chain=_muon,
    takes={
        **at_least_0("lr", "weight_decay", "momentum", "eps"),
        **switches("nesterov"),
        "ns_coefficients": Takes(several(number(), number(), number()), "three numbers"),
        "ns_steps": Takes(whole(0, 99), "a whole number from 0 to 99"),
        "adjust_lr_fn": Takes(or_none(lambda value: value in _ADJUSTED), f"None or one of {', '.join(_ADJUSTED)}"),
    },
    state={"TorchMuonState": {"momentum_buffer": "momentum_buffer"}},
    schedules_momentum="momentum",
    rate_in_its_dtype=True,
    in_torch_layout=True,
    own_count=True,
    counts=False,
)
LBFGS = OptimizerPair(
    torch="torch.optim.LBFGS",
    name="lbfgs",
    defaults=_LBFGS,
    chain=_lbfgs,
    takes={
        **at_least_0("lr"),
        "max_iter": COUNT,
        "max_eval": Takes(or_none(COUNT.holds), "None or a whole number of at least 1"),
        "history_size": COUNT,
        "tolerance_grad": ANY_NUMBER,
        "tolerance_change": ANY_NUMBER,
        "line_search_fn": Takes(or_none(lambda value: value == "strong_wolfe"), "None or strong_wolfe"),
        **switches("maximize"),
    },
    in_torch_layout=True,
    own_count=True,
    counts=False,
    closure=True,
)
SPARSE_ADAM = OptimizerPair(
    torch="torch.optim.SparseAdam",
    name="sparseadam",
    defaults={"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "maximize": False},
    chain=_no_chain,
    takes={**at_least_0("lr", "eps"), "betas": BETAS, **switches("maximize")},
    refused=lambda options: (
        "torch.optim.SparseAdam updates only the rows in a sparse gradient, and JAX's gradients are dense; "
        "nearest is Adam (port.optim.by_name('adam')), which also lets the moments of the other rows decay"
    ),
)
