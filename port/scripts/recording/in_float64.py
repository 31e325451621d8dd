"""Run a float32 script in float64: tensors that meet a float64 tensor in a torch function are cast to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from port.scripts.observing.functions import IN_PLACE, name_of_function

KEPT = {*IN_PLACE, "__set__", "__delitem__"}
"""Functions that write into their arguments."""


class InFloat64(TorchFunctionMode):
    """Within this mode, once it is on, float32 arguments next to float64 ones are cast.

    The caller casts the models and the batches; this mode handles what else a script holds: class weights, constants,
    targets that it makes. Operations on float32 tensors alone stay in float32, as in the written trainer.

    Attributes:
        is_on: whether it casts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_on = False

    def begin(self) -> None:
        """Switch it on; from here on torch's default dtype is float64."""
        self.is_on = True
        torch.set_default_dtype(torch.float64)

    @contextmanager
    def off(self) -> Iterator[None]:
        """Within this context the mode is off, and nothing is cast to float64."""
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
        """Call the function with its arguments in one precision."""
        kwargs = kwargs or {}
        if self.is_on and _is_mixed(args, kwargs) and not _writes(func, kwargs):
            args, kwargs = pytree.tree_map_only(torch.Tensor, in_float64, (args, kwargs))
        return func(*args, **kwargs)


def in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """Cast a float32 tensor to float64; return any other unchanged."""
    return tensor.double() if tensor.dtype == torch.float32 else tensor


def _is_mixed(args: Any, kwargs: Any) -> bool:
    found = {one.dtype for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
    return {torch.float32, torch.float64} <= found


def _writes(function: Any, kwargs: dict[str, Any]) -> bool:
    method = name_of_function(function).rpartition(".")[2]
    return method in KEPT or "out" in kwargs or (method.endswith("_") and not method.endswith("__"))
