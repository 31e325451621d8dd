"""One pair for every class of torch.optim."""

from __future__ import annotations

from typing import Any

from port.errors import UnknownChoice, UsageError
from port.pairs.optimizers.adam import ADAM, ADAMAX, ADAMW, NADAM, RADAM
from port.pairs.optimizers.adaptive import ADADELTA, ADAFACTOR, ADAGRAD, RMSPROP, RPROP
from port.pairs.optimizers.momentum import SGD
from port.pairs.optimizers.optimizer_pair import STEP, OptimizerPair, Options
from port.pairs.optimizers.others import ASGD, LBFGS, MUON, SPARSE_ADAM
from port.pairs.pair import is_class

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


def pair_of_optimizer(optimizer: Any) -> OptimizerPair:
    """The pair of a torch optimizer, or of its class.

    Raises:
        UsageError: a class that no pair speaks of; a subclass too, as it may step otherwise.
    """
    cls = optimizer if isinstance(optimizer, type) else type(optimizer)
    for pair in OPTIMIZERS:
        if is_class(cls, pair.torch):
            return pair
    families = [pair.torch for pair in OPTIMIZERS if any(is_class(base, pair.torch) for base in cls.__mro__)]
    names = ", ".join(pair.torch.removeprefix("torch.optim.") for pair in OPTIMIZERS)
    what = f"{cls.__module__}.{cls.__qualname__}"
    if families:
        raise UsageError(
            f"{what} is a class of its own, derived from {families[0]}: how it steps is not known; "
            f"make a {families[0]} with its groups and state if it steps alike, or write the step in optax"
        )
    raise UsageError(f"{what} is none of torch.optim's optimizers; there are: {names}")


def pair_by_name(name: str) -> OptimizerPair:
    """The pair that the command line calls so.

    Raises:
        UnknownChoice: there is none.
    """
    for pair in OPTIMIZERS:
        if pair.name == name:
            return pair
    raise UnknownChoice("optimizer", name, tuple(pair.name for pair in OPTIMIZERS))


__all__ = ["OPTIMIZERS", "STEP", "OptimizerPair", "Options", "pair_by_name", "pair_of_optimizer"]
