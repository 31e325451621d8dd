"""Call torch constructors that insist on real bools, which numbers with origins cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from port.translation.ir.origin_numbers import OriginBool


def with_true_bools(construct: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a constructor; if it raises TypeError, call it again with plain bools in place of bools with origins.

    Attributes of the result with an argument's name and value then get the origin back.
    """
    state = torch.random.get_rng_state()
    try:
        return construct(*args, **kwargs)
    except TypeError:
        if not any(isinstance(value, OriginBool) for value in (*args, *kwargs.values())):
            raise
    torch.random.set_rng_state(state)  # so that the second call draws the same numbers
    made = construct(*map(_true, args), **{name: _true(value) for name, value in kwargs.items()})
    held = getattr(made, "__dict__", {})
    for name, value in kwargs.items():
        if isinstance(value, OriginBool) and held.get(name) is bool(value):
            held[name] = value
    return made


def _true(value: Any) -> Any:
    return bool(value) if isinstance(value, OriginBool) else value
