"""Whether an optimizer takes the values of its options. Imports neither torch nor jax."""

from __future__ import annotations

from typing import Any

from port.pairs.optimizers import OptimizerPair, Options
from port.pairs.optimizers.options import like


def reason_against(pair: OptimizerPair, options: Options) -> str | None:
    """Why torch does not take these options, or fails over them later; None if it takes them.

    The rules are the pair's; what it says nothing of is to be of its default's kind, and numbers are to be finite.

    Args:
        pair: the optimizer's.
        options: under torch's names. A number may be an array of one, of any library.
    """
    for option, value in options.items():
        if option not in pair.defaults:
            continue
        takes = pair.takes.get(option) or like(pair.defaults[option])
        if not takes.holds(value):
            return f"{option}: expected {takes.words}, got {shown(value)}"
    return pair.conflict({**pair.defaults, **options})


def shown(value: Any) -> str:
    """A value for a message: the beginning of it, on one line."""
    return f"{' '.join(repr(value).split()):.60}"
