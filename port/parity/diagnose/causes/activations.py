"""Activations that differ from torch's, or have other options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from port.parity.diagnose.causes.operation import Explanation, TorchOperation, Way, having, instead

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu's tanh approximation": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "selu": F.selu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "softplus": F.softplus,
    "mish": F.mish,
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "quick GELU, x · sigmoid(1.702 x)": lambda x: x * torch.sigmoid(1.702 * x),
}
"""Keyed by jax.nn's name."""
_IN_JAX = {"hardswish": "hard_swish", "hardsigmoid": "hard_sigmoid"}
_SLOPES = (0.01, 0.1, 0.2, 0.3)


def gelu(operation: TorchOperation) -> Iterator[Way]:
    """GELU's tanh approximation instead of the exact one, or vice versa."""
    if operation.name == "gelu":
        if operation.arguments.get("approximate", "none") == "none":
            why = "Flax takes GELU's tanh approximation, torch's is the exact one"
            yield Way("tanh-gelu", why, having(approximate="tanh"))
        else:
            why = "Flax takes the exact GELU, torch's is the tanh approximation"
            yield Way("exact-gelu", why, having(approximate="none"), "Call jax.nn.gelu(x, approximate=True).")


def slope(operation: TorchOperation) -> Iterator[Way]:
    """Another negative slope."""
    if operation.name == "leaky_relu":
        own = operation.arguments.get("negative_slope", 0.01)
        for other in _SLOPES:
            if other != own:
                why = f"the negative slope is {own:g} in torch and {other:g} in Flax"
                remedy = f"Call jax.nn.leaky_relu(x, negative_slope={own:g})."
                yield Way("negative-slope", why, having(negative_slope=other), remedy=remedy)


def another(operation: TorchOperation) -> Iterator[Way]:
    """Another activation, or none."""
    own = _IN_JAX.get(operation.name, operation.name)
    if own not in ACTIVATIONS:
        return
    remedy = f"Call jax.nn.{own}" + (" with approximate=False." if own == "gelu" else ".")
    for name, function in ACTIVATIONS.items():
        if name != own:
            why = f"torch calls {operation.name} there, Flax {name}"
            yield Way("another-activation", why, instead(function), remedy=remedy, rank=1)
    why = f"torch calls {operation.name} there, Flax no activation"
    yield Way("activation-missing", why, instead(lambda x: x), remedy=remedy)


def softmax_axis(operation: TorchOperation) -> Iterator[Way]:
    """A softmax along another axis."""
    if operation.name not in ("softmax", "log_softmax") or not torch.is_tensor(operation.input):
        return
    rank, own = operation.input.ndim, operation.arguments.get("dim")
    if isinstance(own, int):
        for axis in range(rank):
            if axis != own % rank:
                why = f"torch's {operation.name} is along axis {own % rank} of {rank}, Flax's along axis {axis}"
                remedy = f"Call jax.nn.{operation.name}(x, axis={own})."
                yield Way("softmax-axis", why, having(dim=axis), remedy=remedy)


EXPLANATIONS: tuple[Explanation, ...] = (gelu, slope, another, softmax_axis)
