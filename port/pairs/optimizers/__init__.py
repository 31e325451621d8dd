"""Pairs of all torch.optim classes; registered pairs come first."""

from __future__ import annotations

from typing import Any

from port.errors import UnknownChoice, UsageError
from port.pairs.optimizers.adam import ADAM, ADAMAX, ADAMW, NADAM, RADAM
from port.pairs.optimizers.adaptive import ADADELTA, ADAFACTOR, ADAGRAD, RMSPROP, RPROP
from port.pairs.optimizers.momentum import SGD
from port.pairs.optimizers.optimizer_pair import (
    CHANGE_NOTHING,
    STEP,
    OptimizerPair,
    Options,
    chained,
    decoupled,
    given,
    gradient,
    rated,
)
from port.pairs.optimizers.others import ASGD, LBFGS, MUON, SPARSE_ADAM
from port.pairs.pair import is_class
from port.pairs.registered import registered

OPTIMIZERS = (
    SGD,
    ADAM,
    ADAMW,
    ADAMAX,
    NADAM,
    RADAM,
    ADAGRAD,
    ADADELTA,
    RMSPROP,
    RPROP,
    ASGD,
    ADAFACTOR,
    MUON,
    LBFGS,
    SPARSE_ADAM,
)


def all_optimizers() -> tuple[OptimizerPair, ...]:
    """Return all optimizer pairs, registered ones first."""
    return (*registered(OptimizerPair), *OPTIMIZERS)


def pair_of_optimizer(optimizer: Any) -> OptimizerPair:
    """Return the pair of a torch optimizer or its class.

    Raises:
        UsageError: a class without a pair; also a subclass, which may update differently.
    """
    cls = optimizer if isinstance(optimizer, type) else type(optimizer)
    pairs = all_optimizers()
    for pair in pairs:
        if is_class(cls, pair.torch):
            return pair
    families = [pair.torch for pair in pairs if any(is_class(base, pair.torch) for base in cls.__mro__)]
    names = ", ".join(dict.fromkeys(pair.torch.removeprefix("torch.optim.") for pair in pairs))
    what = f"{cls.__module__}.{cls.__qualname__}"
    own = "register a pair for it: port.register(port.pairs.OptimizerPair(…)), or --pairs on the command line"
    if families:
        raise UsageError(
            f"{what} is derived from {families[0]} and may update differently; "
            f"if it does not, make a {families[0]} with its groups and state, otherwise {own}"
        )
    raise UsageError(f"{what} is not one of torch.optim's optimizers: {names}. If it is your own, {own}")


def pair_by_name(name: str) -> OptimizerPair:
    """Return the pair of an optimizer by its short name.

    Raises:
        UnknownChoice: an unknown name.
    """
    pairs = all_optimizers()
    for pair in pairs:
        if pair.name == name:
            return pair
    known = [pair.name for pair in pairs if pair.refused(pair.defaults) is None]
    raise UnknownChoice("optimizer", name, dict.fromkeys(known))


__all__ = [
    "CHANGE_NOTHING",
    "OPTIMIZERS",
    "STEP",
    "OptimizerPair",
    "Options",
    "all_optimizers",
    "chained",
    "decoupled",
    "given",
    "gradient",
    "pair_by_name",
    "pair_of_optimizer",
    "rated",
]
