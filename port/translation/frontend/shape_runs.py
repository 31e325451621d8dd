"""Run a module on fake floating-point tensors and real integers: shapes are inferred, indices and masks computed.

Which lengths a module accepts, and how many operators it calls, follows from shapes, indices and masks alone. A run of
a large model costs no more than that of a small one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from port.parity.sides.copies import copied
from port.translation.frontend.alike_layers import AlikeLayers
from port.translation.frontend.drawn_branches import select_drawn_branches

UNDECIDED = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    NotImplementedError,
)
"""Exceptions of a fake run where values decide, or where an operator has no fake implementation."""

_INDEXING = ("embedding", "gather", "index", "nll_loss", "scatter", "take")
"""Prefixes of the names of operators that read the values of indices."""
_MOST_WHOLE_NUMBERS = 1 << 24


class ShapeRuns:
    """A copy of a module that runs on fake floating-point tensors.

    Args:
        module: the original; left unchanged.
        layers: paths of torch layers in it; identical ones are run once for all.
        training: the mode to run in.
    """

    def __init__(self, module: torch.nn.Module, layers: Collection[str] = (), *, training: bool = False) -> None:
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.copy = copied(module, self._without_numbers).train(training)
        select_drawn_branches(self.copy, numbers=False)
        self.alike = AlikeLayers(self.copy, layers)

    def inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Convert inputs to fake floating-point tensors and real integers."""
        made: tuple[Any, Any] = pytree.tree_map_only(torch.Tensor, self._without_numbers, (args, kwargs))
        return made

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the copy on inputs from `inputs`.

        Raises:
            Exception: one of `UNDECIDED`, or the module's own.
        """
        with _Shapes(self.fake), self.alike.run_once():
            return self.copy(*args, **kwargs)

    def _without_numbers(self, tensor: torch.Tensor) -> torch.Tensor:
        return _faked(self.fake, tensor) if _is_float(tensor) or tensor.is_meta else tensor.detach().clone()


def is_without_numbers(module: Any) -> bool:
    """Whether a module has tensors on the meta device, or lazy layers."""
    return is_lazy_in_part(module) or any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


def is_lazy_in_part(module: Any) -> bool:
    """Whether a module contains lazy layers, which the first run initialises."""
    return any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers()))


class _Shapes(TorchDispatchMode):
    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self.fake = fake

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            return self._of_whole_numbers(operator, args, kwargs, tensors)
        if all(isinstance(tensor, FakeTensor) for tensor in tensors):
            return operator(*args, **kwargs)
        name = operator.overloadpacket.__name__
        if not name.startswith(_INDEXING):
            return operator(*args, **kwargs)
        return self._indexed(operator, name, args, kwargs)

    def _of_whole_numbers(self, operator: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Any:
        if not tensors:
            with self.fake:
                made = operator(*args, **kwargs)
            whole = [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]
            if any(_is_float(leaf) or leaf.numel() > _MOST_WHOLE_NUMBERS for leaf in whole):
                return made
        made = operator(*args, **kwargs)
        return pytree.tree_map_only(
            torch.Tensor,
            lambda leaf: _faked(self.fake, leaf) if _is_float(leaf) and not _is_among(leaf, tensors) else leaf,
            made,
        )

    def _indexed(self, operator: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Run an indexing operator on zeros, which checks the indices' range and finds the shape that a mask leaves."""
        in_place = operator._schema.is_mutable
        plain = operator
        if in_place:
            packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
            plain = getattr(packet, operator._overloadname, None)
            if plain is None:
                raise NotImplementedError(f"{operator} has no functional variant")
        args_, kwargs_ = pytree.tree_map_only(FakeTensor, _zeros, (args, kwargs))
        made = plain(*args_, **kwargs_)
        if in_place:
            return operator(*args, **kwargs)
        return pytree.tree_map_only(
            torch.Tensor, lambda leaf: _faked(self.fake, leaf) if _is_float(leaf) else leaf, made
        )


def _faked(fake: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return fake.from_tensor(tensor)
    with fake:
        device = "cpu" if tensor.is_meta else tensor.device  # integers made on its device need values
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


def _zeros(tensor: FakeTensor) -> torch.Tensor:
    """Return zeros of a tensor's shape, expanded from a single element."""
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_among(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> bool:
    return any(tensor is other for other in tensors)
