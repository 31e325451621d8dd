"""Optimizers that divide by past gradients, Adagrad, Adadelta, RMSprop, Adafactor; and Rprop, which uses only signs."""

from __future__ import annotations

from port.pairs.expression import Expression
from port.pairs.optimizers.optimizer_pair import OptimizerPair, Options, chained, given, gradient, rated
from port.pairs.optimizers.options import NOT_NEGATIVE, Takes, at_least_0, number, or_none, several, switches


def _adagrad(options: Options) -> Expression:
    named = given(
        options,
        lr_decay=(options["lr_decay"], 0.0),
        initial_accumulator_value=(options["initial_accumulator_value"], 0.0),
        eps=(options["eps"], 1e-10),
    )
    scaled = Expression("port.transforms.scale_by_torch_adagrad", (), named)
    return chained(*gradient(options), scaled, rated(options))


def _adadelta(options: Options) -> Expression:
    named = given(options, rho=(options["rho"], 0.9), eps=(options["eps"], 1e-6))
    return chained(*gradient(options), Expression("optax.adadelta", (options["lr"],), named))


def _rmsprop(options: Options) -> Expression:
    named = {"decay": options["alpha"], **given(options, eps=(options["eps"], 1e-8)), "eps_in_sqrt": False}
    if options["momentum"] == 0:
        centered = {"centered": True} if options["centered"] else {}
        return chained(*gradient(options), Expression("optax.rmsprop", (options["lr"],), {**named, **centered}))
    # optax.rmsprop scales by the learning rate before the trace (O6).
    scale = "optax.scale_by_stddev" if options["centered"] else "optax.scale_by_rms"
    trace = Expression("optax.trace", (options["momentum"],))
    return chained(*gradient(options), Expression(scale, (), named), trace, rated(options))


def _rprop(options: Options) -> Expression:
    named = given(
        options,
        etas=(tuple(options["etas"]), (0.5, 1.2)),
        step_sizes=(tuple(options["step_sizes"]), (1e-6, 50)),
    )
    return chained(*gradient(options), Expression("port.transforms.torch_rprop", (options["lr"],), named))


def _adafactor(options: Options) -> Expression:
    named = given(
        options,
        beta2_decay=(options["beta2_decay"], -0.8),
        eps=(tuple(options["eps"]), (None, 1e-3)),
        d=(options["d"], 1.0),
        weight_decay=(options["weight_decay"], 0.0),
    )
    adafactor = Expression("port.transforms.torch_adafactor", (options["lr"],), named)
    return chained(*gradient(options, decayed=False), adafactor)


ADAGRAD = OptimizerPair(
    torch="torch.optim.Adagrad",
    name="adagrad",
    defaults={
        "lr": 1e-2,
        "lr_decay": 0.0,
        "weight_decay": 0.0,
        "initial_accumulator_value": 0.0,
        "eps": 1e-10,
        "maximize": False,
    },
    chain=_adagrad,
    takes={
        **at_least_0("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"),
        **switches("maximize"),
    },
    state={"TorchAdagradState": {"count": "step", "sum": "sum"}},
    notes=("O7",),
)
ADADELTA = OptimizerPair(
    torch="torch.optim.Adadelta",
    name="adadelta",
    defaults={"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0, "maximize": False},
    chain=_adadelta,
    takes={
        **at_least_0("lr", "eps", "weight_decay"),
        "rho": Takes(number(lambda value: 0 <= value <= 1), "a number from 0 to 1"),
        **switches("maximize"),
    },
    state={"ScaleByAdaDeltaState": {"e_g": "square_avg", "e_x": "acc_delta"}},
    notes=("O11",),
)
RMSPROP = OptimizerPair(
    torch="torch.optim.RMSprop",
    name="rmsprop",
    defaults={
        "lr": 1e-2,
        "alpha": 0.99,
        "eps": 1e-8,
        "weight_decay": 0.0,
        "momentum": 0.0,
        "centered": False,
        "maximize": False,
    },
    chain=_rmsprop,
    takes={**at_least_0("lr", "alpha", "eps", "weight_decay", "momentum"), **switches("centered", "maximize")},
    state={
        "ScaleByRmsState": {"nu": "square_avg"},
        "ScaleByRStdDevState": {"mu": "grad_avg", "nu": "square_avg"},
        "TraceState": {"trace": "momentum_buffer"},
    },
    schedules_momentum="momentum",
    notes=("O5", "O6"),
)
RPROP = OptimizerPair(
    torch="torch.optim.Rprop",
    name="rprop",
    defaults={"lr": 1e-2, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50), "maximize": False},
    chain=_rprop,
    takes={
        **at_least_0("lr"),
        "etas": Takes(
            several(number(lambda value: 0 < value < 1), number(lambda value: value > 1)),
            "two numbers, one between 0 and 1 and one above 1",
        ),
        "step_sizes": Takes(several(number(), number()), "two numbers"),
        **switches("maximize"),
    },
    state={"TorchRpropState": {"count": "step", "prev": "prev", "step_size": "step_size"}},
    takes_first_rate=True,
    notes=("O12",),
)
ADAFACTOR = OptimizerPair(
    torch="torch.optim.Adafactor",
    name="adafactor",
    defaults={
        "lr": 1e-2,
        "beta2_decay": -0.8,
        "eps": (None, 1e-3),
        "d": 1.0,
        "weight_decay": 0.0,
        "maximize": False,
    },
    chain=_adafactor,
    takes={
        **at_least_0("lr", "weight_decay"),
        "beta2_decay": Takes(number(lambda value: value <= 0), "a number of at most 0"),
        "eps": Takes(
            several(or_none(NOT_NEGATIVE), NOT_NEGATIVE),
            "two numbers of at least 0, the first of which may be None",
        ),
        "d": Takes(number(lambda value: value >= 1), "a number of at least 1"),
        **switches("maximize"),
    },
    state={
        "TorchAdafactorState": {
            "count": "step",
            "row_var": "row_var",
            "col_var": "col_var",
            "variance": "variance",
        }
    },
    in_torch_layout=True,
    own_count=True,
)
