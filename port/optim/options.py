"""Validates the values of an optimizer's options. Imports neither torch nor jax."""

from __future__ import annotations

from typing import Any

from port.pairs.optimizers import OptimizerPair, Options
from port.pairs.optimizers.options import like


def reason_against(pair: OptimizerPair, options: Options) -> str | None:
    """Why torch rejects these options, or fails with them later; None if it accepts them.

    The rules are the pair's; options without a rule must have their default's kind, and numbers must be finite.

    Args:
        pair: the optimizer's pair.
        options: under torch's names. A number may be an array of one element, of any library.
    """
    for option, value in options.items():
        if option not in pair.defaults:
            continue
        takes = pair.takes.get(option) or like(pair.defaults[option])
        if not takes.holds(value):
            return f"{option}: expected {takes.words}, got {shown(value)}"
    return pair.conflict({**pair.defaults, **options})


def shown(value: Any) -> str:
    """Format a value for a message: its beginning, on one line."""
    return f"{' '.join(repr(value).split()):.60}"
