"""Operators in PyTorch: two with gradients of their own, one that writes in place, one declared by its schema."""

from __future__ import annotations

from typing import Any

import torch


@torch.library.custom_op("my_lib::swish", mutates_args=())
def swish(x: torch.Tensor, beta: float) -> torch.Tensor:
    """x · sigmoid(beta · x)."""
    return x * torch.sigmoid(beta * x)


@swish.register_fake
def _(x: torch.Tensor, beta: float) -> torch.Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.beta = inputs[1]


def _slope(ctx: Any, grad: torch.Tensor) -> Any:
    (x,) = ctx.saved_tensors
    s = torch.sigmoid(ctx.beta * x)
    return grad * (s + ctx.beta * x * s * (1 - s)), None


swish.register_autograd(_slope, setup_context=_keep)


@torch.library.custom_op("my_lib::rounded", mutates_args=())
def rounded(x: torch.Tensor) -> torch.Tensor:
    """The nearest whole numbers; the gradient goes straight through."""
    return torch.round(x)


rounded.register_fake(torch.empty_like)
rounded.register_autograd(lambda ctx, grad: grad)


@torch.library.custom_op("my_lib::doubled_", mutates_args={"x"})
def doubled_(x: torch.Tensor) -> None:
    """Twice x, in its place."""
    x.mul_(2)


_library = torch.library.Library("my_lib", "FRAGMENT")
_library.define("extremes(Tensor x, int dim, bool keepdim=False) -> (Tensor, Tensor)")


def _extremes(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amin(dim, keepdim), x.amax(dim, keepdim)


def _extremes_slope(ctx: Any, low: torch.Tensor, high: torch.Tensor) -> Any:
    (x,) = ctx.saved_tensors
    least, most = (x == value for value in (x.amin(ctx.dim, True), x.amax(ctx.dim, True)))
    if not ctx.keepdim:
        low, high = low.unsqueeze(ctx.dim), high.unsqueeze(ctx.dim)
    return least * low + most * high, None, None


def _keep_extremes(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.dim, ctx.keepdim = inputs[1], inputs[2]


_library.impl("extremes", _extremes, "CPU")
torch.library.register_fake("my_lib::extremes", _extremes, lib=_library)
torch.library.register_autograd("my_lib::extremes", _extremes_slope, setup_context=_keep_extremes, lib=_library)
