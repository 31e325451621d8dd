"""Constructors of torch's that ask whether a switch is a bool, which nothing that remembers its origin can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from port.translation.ir.origin_numbers import OriginBool


def with_true_bools(construct: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What a constructor makes; given bools in the place of switches that remember their origins if it asks for them.

    What it holds of them then, by their names, remembers its origin again.
    """
    state = torch.random.get_rng_state()
    try:
        return construct(*args, **kwargs)
    except TypeError:
        if not any(isinstance(value, OriginBool) for value in (*args, *kwargs.values())):
            raise
    torch.random.set_rng_state(state)  # what it drew is drawn again
    made = construct(*map(_true, args), **{name: _true(value) for name, value in kwargs.items()})
    held = getattr(made, "__dict__", {})
    for name, value in kwargs.items():
        if isinstance(value, OriginBool) and held.get(name) is bool(value):
            held[name] = value
    return made


def _true(value: Any) -> Any:
    return bool(value) if isinstance(value, OriginBool) else value
