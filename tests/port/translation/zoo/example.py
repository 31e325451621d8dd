"""What an example is, and the numbers that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Given = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Example:
    """One module with what it is called with.

    Attributes:
        name: its own among all examples.
        build: makes the module.
        inputs: makes the arguments and the keyword arguments of a call.
        covers: what this example is there for.
        refused: empty, or what the refusal says: such a module cannot be translated.
        gain: how much wider than by their fan-in the weights are drawn.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[], Given]
    covers: str
    refused: str = ""
    gain: float = 1.0


def given(*args: Any, **kwargs: Any) -> Given:
    """The arguments of a call, as an example gives them."""
    return args, kwargs


def floats(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers of that shape, not centred, the same at each call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 0.2


def integers(high: int, *shape: int, seed: int = 0) -> Tensor:
    """Random indices of that shape below ``high``, the same at each call."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def booleans(*shape: int, seed: int = 0) -> Tensor:
    """A random mask of that shape, the same at each call; the first place of each row is True."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[..., 0] = True
    return mask
