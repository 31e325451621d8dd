"""One pair for every class of torch.optim; those that users register stand before them."""

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
    """Every optimizer's pair there is, the registered ones first."""
    return (*registered(OptimizerPair), *OPTIMIZERS)


def pair_of_optimizer(optimizer: Any) -> OptimizerPair:
    """The pair of a torch optimizer, or of its class.

    Raises:
        UsageError: a class that no pair speaks of; a subclass too, as it may step otherwise.
    """
    cls = optimizer if isinstance(optimizer, type) else type(optimizer)
    pairs = all_optimizers()
    for pair in pairs:
        if is_class(cls, pair.torch):
            return pair
    families = [pair.torch for pair in pairs if any(is_class(base, pair.torch) for base in cls.__mro__)]
    names = ", ".join(dict.fromkeys(pair.torch.removeprefix("torch.optim.") for pair in pairs))
    what = f"{cls.__module__}.{cls.__qualname__}"
    own = "register a pair of it: port.register(port.pairs.OptimizerPair(…)), or --pairs on the command line"
    if families:
        raise UsageError(
            f"{what} is a class of its own, derived from {families[0]}: how it steps is not known; "
            f"make a {families[0]} with its groups and state if it steps alike, or {own}"
        )
    raise UsageError(f"{what} is none of torch.optim's optimizers; there are: {names}. If it steps otherwise, {own}")


def pair_by_name(name: str) -> OptimizerPair:
    """The pair of an optimizer by its short name.

    Raises:
        UnknownChoice: there is none.
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
