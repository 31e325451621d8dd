"""Fill uninitialised memory (`torch.empty`) with random numbers, to detect results that depend on it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from port.translation.frontend.source_locations import is_users

_UNFILLED = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"))
"""ATen operators that return uninitialised memory."""


@contextmanager
def filled_at_random(seed: int) -> Iterator[list[str]]:
    """Fill uninitialised tensors with random numbers, within the context; torch's global generator is not advanced.

    Args:
        seed: the seed of the numbers.

    Yields:
        Where such tensors are made: file and line of the user's code, or the operator's name.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    generator = torch.Generator().manual_seed(seed)
    places: list[str] = []

    class Filling(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = operator(*args, **(kwargs or {}))
            name = operator.overloadpacket.__name__
            if name in _UNFILLED and type(made) is torch.Tensor and _has_numbers(made):
                # Fill the whole storage: elements of an expanded tensor share memory.
                whole = made.as_strided((made.untyped_storage().nbytes() // made.element_size(),), (1,), 0)
                whole.copy_(torch.randint(1, 100, whole.shape, generator=generator))
                frames = [frame for frame in traceback.extract_stack() if is_users(frame.filename)]
                places.append(f"{frames[-1].filename}:{frames[-1].lineno}" if frames else f"torch.{name}")
            return made

    with Filling():
        yield places


def _has_numbers(tensor: Any) -> bool:
    import torch

    strided = tensor.layout is torch.strided and not tensor.is_quantized
    return bool(strided and tensor.device.type == "cpu" and tensor.numel())
