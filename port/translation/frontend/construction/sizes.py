"""Record the lengths with which tensors are made, with their origins."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from port.translation.ir.origin_numbers import origin_of


class Sizes(TorchFunctionMode):
    """Torch function mode that records the shapes of tensors: ``torch.zeros(1, n, dim)``, ``x.view(1, 1, n, n)``.

    The result of an elementwise operation has its operand's shape, and a parameter that of its tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        self._held: list[Any] = []  # a storage's address is unique only while it is alive

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Size):
            known = self.of(args[0])
            return made if known is None else torch.Size(known)
        if function is torch.Tensor.size and isinstance(made, int):
            known = self.of(args[0]) or tuple(args[0].shape)
            return known[args[1] if len(args) > 1 else (kwargs or {})["dim"]]
        if isinstance(made, torch.Tensor):
            sizes = self._sizes(made, (args, kwargs or {}))
            if sizes is not None:
                self._found.setdefault(storage_of(made), sizes)
                self._held.append(made)
        return made

    def of(self, tensor: Any) -> tuple[int, ...] | None:
        """Return a tensor's shape, its lengths with their origins where known; None where none is."""
        return self._found.get(storage_of(tensor))

    def _sizes(self, made: Any, arguments: Any) -> tuple[int, ...] | None:
        shape = tuple(made.shape)
        leaves = pytree.tree_leaves(arguments)
        numbers = [leaf for leaf in leaves if isinstance(leaf, int) and not isinstance(leaf, bool)]
        tensors = [(leaf, self.of(leaf)) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        before = [length for _, sizes in tensors for length in sizes or () if origin_of(length) is not None]
        if before or any(origin_of(number) is not None for number in numbers):
            for start in range(len(numbers) - len(shape) + 1):
                window = tuple(numbers[start : start + len(shape)])
                if all(length in (size, -1) for length, size in zip(window, shape, strict=True)):
                    open_ones = {size: next((each for each in before if each == size), size) for size in shape}
                    return tuple(
                        open_ones[size] if length == -1 else length for length, size in zip(window, shape, strict=True)
                    )
        return next((sizes for leaf, sizes in tensors if sizes is not None and tuple(leaf.shape) == shape), None)


def storage_of(tensor: Any) -> tuple[int, tuple[int, ...]]:
    """Return a key for a tensor: the identity of its storage, and its shape."""
    try:
        return tensor.untyped_storage()._cdata, tuple(tensor.shape)
    except (NotImplementedError, RuntimeError):  # a sparse tensor, or one of an unusual kind
        return id(tensor), tuple(tensor.shape)
