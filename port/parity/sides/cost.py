"""Estimate the memory and time of comparing a module from its operators, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any

from port.parity.sides.copies import copied

if TYPE_CHECKING:
    import torch


@dataclass
class Cost:
    """What one forward pass of a module stores and computes; all zero if it is unknown.

    Attributes:
        held: bytes of the parameters and buffers.
        results: bytes of the operators' results, without views.
        operators: number of operators to compile; those of a recurrent layer count once, as JAX compiles a loop once.
        products: floating-point operations of matrix products.
        convolutions: floating-point operations of dense convolutions.
        grouped: those of grouped convolutions, depthwise ones included.
        looped: those of the gradients of strided and grouped convolutions, which XLA computes in plain loops for all
            pairs of groups.
    """

    held: float = 0
    results: float = 0
    operators: float = 0
    products: float = 0
    convolutions: float = 0
    grouped: float = 0
    looped: float = 0

    def scaled(self, times: float) -> Cost:
        """Return the cost for inputs so many times as large: the parts that depend on the inputs are scaled."""
        kept = {"held", "operators"}
        sums = {each.name: getattr(self, each.name) for each in fields(self)}
        return Cost(**{name: sum if name in kept else times * sum for name, sum in sums.items()})


def cost_of(module: torch.nn.Module, arguments: Any) -> Cost:
    """Estimate the cost of a forward pass. The module runs on fake tensors, and the work of its operators is added up.

    Args:
        module: the original, in the precision of the comparison.
        arguments: the inputs, (args, kwargs).
    """
    from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
    from torch.utils import _pytree as pytree

    cost = Cost()
    try:
        cost.held = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        # A copy: what the module stores during a run, such as its last attention weights, would be fake tensors too.
        with FakeCopyMode(fake):
            without_numbers = copied(module).eval()
        with fake, _loops_counted_once(without_numbers, cost), _counting(cost):
            args, kwargs = pytree.tree_map(lambda leaf: _faked(fake, leaf), arguments)
            without_numbers(*args, **kwargs)
    except Exception:  # it reads its values, or holds sparse tensors
        return Cost()
    return cost


def _faked(fake: Any, leaf: Any) -> Any:
    import torch

    return fake.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf


_OPERATORS_OF_A_STEP = 20
"""Number of operators that JAX compiles for one direction of a recurrent layer."""


@contextmanager
def _loops_counted_once(module: torch.nn.Module, cost: Cost) -> Iterator[None]:
    """Count the operators of one step only, for recurrent layers called in this context."""
    from torch import nn

    before: list[float] = []

    def entered(layer: Any, args: Any) -> None:
        before.append(cost.operators)

    def left(layer: Any, args: Any, result: Any) -> None:
        loops = layer.num_layers * (2 if layer.bidirectional else 1)
        cost.operators = min(cost.operators, before.pop() + _OPERATORS_OF_A_STEP * loops)

    layers = [layer for layer in module.modules() if isinstance(layer, nn.RNNBase)]
    hooks = [layer.register_forward_pre_hook(entered) for layer in layers]
    hooks += [layer.register_forward_hook(left) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _counting(cost: Cost) -> Any:
    """Add the work of each operator that runs in this context to a cost."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class CostCounter(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = operator(*args, **(kwargs or {}))
            if operator.is_view:
                return result
            cost.operators += 1
            if not operator._schema.is_mutable:
                leaves = pytree.tree_leaves(result)
                cost.results += sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
            count = flop_registry.get(operator.overloadpacket)
            if count is not None:
                _work(cost, operator, args, count(*args, **(kwargs or {}), out_val=result))
            return result

    return CostCounter()


def _work(cost: Cost, operator: Any, args: Any, flops: float) -> None:
    """Add an operator's floating-point operations to the right field."""
    if operator._schema.name != "aten::convolution":
        cost.products += flops
        return
    strides, groups = args[3], args[8]
    if groups == 1:
        cost.convolutions += flops
    else:
        cost.grouped += flops
    if groups > 1 or prod(strides) > 1:
        cost.looped += flops * groups
