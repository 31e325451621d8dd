"""Which values torch's optimizers take for their options. Imports neither torch nor jax."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from port.pairs.optimizers import OptimizerPair, Options

Rule = tuple[Callable[[Any], bool], str]

CHANGE_NOTHING = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Options of torch's that say how an update is computed, not which."""


def _number(within: Callable[[float], bool] = lambda value: True) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        if math.prod(getattr(value, "shape", (0,))) == 1:
            try:
                value = value.item()
            except TypeError:  # jax traces it: it has no value yet
                return True
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max and within(value)

    return holds


def _whole(lowest: int, highest: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and lowest <= value <= highest


def _several(*rules: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(rules):
            return False
        return all(rule(one) for rule, one in zip(rules, value, strict=True))

    return holds


def _or_none(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or rule(value)


_MOST = 2**31 - 1
_FROM_0 = _number(lambda value: value >= 0)
_BELOW_1 = _number(lambda value: 0 <= value < 1)
_AT_LEAST_0: Rule = (_FROM_0, "a number of at least 0")
_ANY: Rule = (_number(), "a number")
_SWITCH: Rule = (lambda value: isinstance(value, int) and value in (0, 1), "True or False")
_ADJUSTED = ("original", "match_rms_adamw", "spectral_unclamped")

RULES: dict[str, Rule] = {
    "lr": _AT_LEAST_0,
    "weight_decay": _AT_LEAST_0,
    "eps": _AT_LEAST_0,
    "adafactor eps": (
        _several(_or_none(_FROM_0), _FROM_0),
        "two numbers of at least 0, the first of which may be None",
    ),
    "betas": (_several(_BELOW_1, _BELOW_1), "two numbers from 0 to below 1"),
    "momentum": _AT_LEAST_0,
    "dampening": _ANY,
    "momentum_decay": _AT_LEAST_0,
    "lr_decay": _AT_LEAST_0,
    "initial_accumulator_value": _AT_LEAST_0,
    "rho": (_number(lambda value: 0 <= value <= 1), "a number from 0 to 1"),
    "alpha": _AT_LEAST_0,
    "lambd": _AT_LEAST_0,
    "t0": _ANY,
    "etas": (
        _several(_number(lambda value: 0 < value < 1), _number(lambda value: value > 1)),
        "two numbers, one between 0 and 1 and one above 1",
    ),
    "step_sizes": (_several(_number(), _number()), "two numbers"),
    "beta2_decay": (_number(lambda value: value <= 0), "a number of at most 0"),
    "d": (_number(lambda value: value >= 1), "a number of at least 1"),
    "ns_coefficients": (_several(_number(), _number(), _number()), "three numbers"),
    "ns_steps": (_whole(0, 99), "a whole number from 0 to 99"),
    "adjust_lr_fn": (_or_none(lambda value: value in _ADJUSTED), f"None or one of {', '.join(_ADJUSTED)}"),
    "max_iter": (_whole(1, _MOST), "a whole number of at least 1"),
    "max_eval": (_or_none(_whole(1, _MOST)), "None or a whole number of at least 1"),
    "history_size": (_whole(1, _MOST), "a whole number of at least 1"),
    "tolerance_grad": _ANY,
    "tolerance_change": _ANY,
    "line_search_fn": (_or_none(lambda value: value == "strong_wolfe"), "None or strong_wolfe"),
    **dict.fromkeys(("nesterov", "maximize", "amsgrad", "centered", "decoupled_weight_decay"), _SWITCH),
}
"""An option, where it is an optimizer's own behind that one's name → whether torch takes a value, and what it takes."""


def reason_against(pair: OptimizerPair, options: Options) -> str | None:
    """Why torch does not take these options, or fails over them later; None if it takes them.

    The rules are those of torch.optim's constructors; what they do not look at is to be of its default's kind, and
    numbers are to be finite.

    Args:
        pair: the optimizer's.
        options: under torch's names. A number may be an array of one, of any library.
    """
    for option, value in options.items():
        rule = RULES.get(f"{pair.name} {option}", RULES.get(option))
        if option in pair.defaults and rule is not None and not rule[0](value):
            return f"{option}: expected {rule[1]}, got {shown(value)}"
    if pair.name == "sgd" and options.get("nesterov"):
        momentum, dampening = options.get("momentum", 0.0), options.get("dampening", 0.0)
        if not _number(lambda value: value > 0)(momentum) or not _number(lambda value: value == 0)(dampening):
            return f"nesterov needs a momentum above 0 and no dampening, got {shown(momentum)} and {shown(dampening)}"
    return None


def shown(value: Any) -> str:
    """A value for a message: the beginning of it, on one line."""
    return f"{' '.join(repr(value).split()):.60}"
