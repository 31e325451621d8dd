"""A script in float64 that was written for float32: what meets a float64 tensor in torch becomes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from port.scripts.observing.functions import IN_PLACE, name_of_function

KEPT = {*IN_PLACE, "__set__", "__delitem__"}
"""They write into what they are given."""


class InFloat64(TorchFunctionMode):
    """Within it, and once it is on, float32 arguments beside float64 ones are cast.

    The models and the batches are cast by who switches it on; this is for what a script holds besides: class weights,
    constants, targets that it makes. What only float32 tensors take part in stays so, as in the written trainer.

    Attributes:
        is_on: it does nothing before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_on = False

    def begin(self) -> None:
        """Switch it on; numbers of no dtype are float64 from here on."""
        self.is_on = True
        torch.set_default_dtype(torch.float64)

    @contextmanager
    def off(self) -> Iterator[None]:
        """Within it nothing is in float64 that would not be without."""
        was_on, self.is_on = self.is_on, False
        dtype = torch.get_default_dtype()
        if was_on:
            torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            self.is_on = was_on
            torch.set_default_dtype(dtype)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call it, with its arguments in one precision."""
        kwargs = kwargs or {}
        if self.is_on and _is_mixed(args, kwargs) and not _writes(func, kwargs):
            args, kwargs = pytree.tree_map_only(torch.Tensor, in_float64, (args, kwargs))
        return func(*args, **kwargs)


def in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 tensor in float64; any other as it is."""
    return tensor.double() if tensor.dtype == torch.float32 else tensor


def _is_mixed(args: Any, kwargs: Any) -> bool:
    found = {one.dtype for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
    return {torch.float32, torch.float64} <= found


def _writes(function: Any, kwargs: dict[str, Any]) -> bool:
    method = name_of_function(function).rpartition(".")[2]
    return method in KEPT or "out" in kwargs or (method.endswith("_") and not method.endswith("__"))
