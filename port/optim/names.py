"""Every optimizer's name and torch's defaults. Imports neither torch nor jax."""

from __future__ import annotations

from typing import Any

from port.errors import UsageError, described
from port.pairs.optimizers import OPTIMIZERS, OptimizerPair, pair_by_name

NAMES = tuple(pair.name for pair in OPTIMIZERS if pair.refused(pair.defaults) is None)
"""The names of all torch optimizers that have a counterpart: torch's name in lower case."""


def pair_named(name: str) -> OptimizerPair:
    """Look up an optimizer's pair by name.

    Raises:
        UnknownChoice: the optimizer does not exist.
        UsageError: ``name`` is not a name.
    """
    if not isinstance(name, str):
        raise UsageError(f"an optimizer is chosen by its name, as in 'adam'; got {described(name)}")
    return pair_by_name(name)


def default_options(name: str) -> dict[str, Any]:
    """Return the options of an optimizer, under torch's names, with torch's defaults.

    Raises:
        UnknownChoice: the optimizer does not exist.
    """
    return dict(pair_named(name).defaults)
