"""Every optimizer's name and torch's defaults. Imports neither torch nor jax."""

from __future__ import annotations

from typing import Any

from port.pairs.optimizers import OPTIMIZERS, pair_by_name

NAMES = tuple(pair.name for pair in OPTIMIZERS if pair.refused(pair.defaults) is None)
"""Every optimizer there is, by torch's name in small letters."""


def default_options(name: str) -> dict[str, Any]:
    """The options of an optimizer, under torch's names, with torch's defaults.

    Raises:
        UnknownChoice: no such optimizer.
    """
    return dict(pair_by_name(name).defaults)
