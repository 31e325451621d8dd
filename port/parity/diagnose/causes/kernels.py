"""Linear layers and convolutions with their kernel in another order, or without their bias."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import torch

from port.parity.diagnose.causes.operation import Explanation, TorchOperation, Way, having


def _weight(operation: TorchOperation) -> torch.Tensor | None:
    is_product = operation.name == "linear" or operation.name.startswith("conv")
    weight = operation.arguments.get("weight")
    return weight if is_product and torch.is_tensor(weight) else None


def axes(operation: TorchOperation) -> Iterator[Way]:
    """Every order of the kernel's axes that its shape allows."""
    weight = _weight(operation)
    if weight is None:
        return
    for order in permutations(range(weight.ndim)):
        if order == tuple(range(weight.ndim)) or tuple(weight.shape[axis] for axis in order) != tuple(weight.shape):
            continue
        if weight.ndim == 2:
            why = "Flax's kernel is transposed: it is square, and fits either way"
        elif order[:2] == (0, 1):
            why = f"Flax's kernel has its spatial axes in another order, torch's {order}"
        else:
            why = f"Flax's kernel has torch's axes in the order {order}"
        # The notes state the correct order for each kind of layer.
        run = having(weight=weight.permute(order))
        yield Way("kernel-transposed", why, run, rank=0 if order[2:] == tuple(range(2, weight.ndim)) else 1)


def flipped(operation: TorchOperation) -> Iterator[Way]:
    """A flipped convolution kernel."""
    weight = _weight(operation)
    if weight is not None and weight.ndim > 2:
        spatial = tuple(range(2, weight.ndim))
        why = "Flax's kernel is flipped along its spatial axes"
        yield Way("kernel-flipped", why, having(weight=weight.flip(spatial)))


def bias(operation: TorchOperation) -> Iterator[Way]:
    """A missing bias."""
    if _weight(operation) is not None and operation.arguments.get("bias") is not None:
        why, remedy = "Flax's layer does not add its bias", "Set use_bias=True in Flax's layer, and add the bias."
        yield Way("bias-missing", why, having(bias=None), remedy=remedy)


EXPLANATIONS: tuple[Explanation, ...] = (axes, flipped, bias)
