"""Every optimizer's name and torch's defaults. Imports neither torch nor jax."""

from __future__ import annotations

from typing import Any

from port.errors import UsageError, described
from port.pairs.optimizers import OPTIMIZERS, OptimizerPair, pair_by_name

NAMES = tuple(pair.name for pair in OPTIMIZERS if pair.refused(pair.defaults) is None)
"""Every optimizer of torch's own that has a counterpart, by torch's name in small letters."""


def pair_named(name: str) -> OptimizerPair:
    """The pair of an optimizer.

    Raises:
        UnknownChoice: no such optimizer.
        UsageError: no name.
    """
    if not isinstance(name, str):
        raise UsageError(f"an optimizer is told by its name, as in 'adam'; got {described(name)}")
    return pair_by_name(name)


def default_options(name: str) -> dict[str, Any]:
    """The options of an optimizer, under torch's names, with torch's defaults.

    Raises:
        UnknownChoice: no such optimizer.
    """
    return dict(pair_named(name).defaults)
