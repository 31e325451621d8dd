"""Output shapes of layers kept whole, on fake tensors; identical layers share them."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, FunctionType, BuiltinFunctionType)


def description(module: torch.nn.Module) -> Any:
    """Return a key that is equal for torch layers with the same output shapes; None for layers outside torch.nn.

    The key is everything that a layer holds, except its tensors' values.
    """
    if not type(module).__module__.startswith("torch.nn."):
        return None
    found: list[Any] = [type(module)]
    for name, value in vars(module).items():
        if name == "_modules":
            key: Any = [(path, child and description(child)) for path, child in value.items()]
            if any(child is not None and of is None for child, (_, of) in zip(value.values(), key, strict=True)):
                return None
        elif name in ("_parameters", "_buffers"):
            key = [(path, tensor is not None and (tensor.dtype, tuple(tensor.shape))) for path, tensor in value.items()]
        elif name == "forward":
            continue  # the wrapper that records the call
        elif isinstance(value, tuple | list):
            if not all(isinstance(item, _PLAIN) for item in value):
                return None
            key = value
        elif not isinstance(value, _PLAIN) and value:
            return None  # a hook, or its state
        else:
            key = (value,) if isinstance(value, _PLAIN) else ()
        found.append((name, tuple(key)))
    return tuple(found)


def described(tensors: list[torch.Tensor]) -> tuple[Any, ...]:
    """Return a key of tensors' shapes, strides, dtypes and devices; comparing symbolic lengths would add a guard."""

    def formula(length: Any) -> Any:
        return length.node.expr if isinstance(length, torch.SymInt) else length

    return tuple((*map(formula, x.size()), *map(formula, x.stride()), x.dtype, x.device) for x in tensors)


Form = tuple[Any, ...]
"""A tensor without its values: size, stride, dtype, device."""


def form_of(tensor: torch.Tensor) -> Form:
    """Return the form of a tensor."""
    return tensor.size(), tensor.stride(), tensor.dtype, tensor.device


def of_form(form: Form) -> torch.Tensor:
    """Return an uninitialised tensor of a form."""
    size, stride, dtype, device = form
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


def shapes_of(
    module: torch.nn.Module,
    forward: Callable[..., Any],
    hooks: dict[int, Any],
    args: Any,
    kwargs: Any,
    *,
    other_mode: bool = False,
) -> Any:
    """Run a layer on fake tensors, in its own mode or the other one.

    Batch norms always run in evaluation mode: training would read values, and the output shapes are the same.

    Args:
        module: the layer.
        forward: its forward, for calls without any fake tensor.
        hooks: forward pre-hooks that compute its weights.
        args: positional arguments.
        kwargs: keyword arguments.
        other_mode: whether to run the mode that the layer is not in.

    Returns:
        The layer's results.
    """
    from torch._guards import detect_fake_mode

    # Without a tensor among the arguments there is no fake mode.
    mode = detect_fake_mode(pytree.tree_leaves((args, kwargs)))
    if mode is None:
        if other_mode:
            raise ValueError("a run with numbers is that of one mode")
        return forward(*args, **kwargs)
    if isinstance(module, torch.nn.CTCLoss | torch.nn.GaussianNLLLoss) and module.reduction != "none":
        # These read values, or have no implementation for fake tensors.
        return next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if leaf.is_floating_point()).new_empty(())
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    state: dict[str, torch.Tensor] = {
        name: mode.from_tensor(tensor.detach(), static_shapes=True) for name, tensor in held.items()
    }
    before = dict(vars(module))
    del vars(module)["forward"]
    module._forward_pre_hooks.update(hooks)  # torch's own forward needs the weight that they compute
    # Read the attribute from vars: `ModeReads` must see only the layer's own reads.
    flags = {inner: bool(vars(inner).get("training")) for inner in module.modules()}
    # Batch norms have separate code for training; attention has a fused path in evaluation.
    training = flags[module] is not other_mode and not isinstance(module, torch.nn.modules.batchnorm._NormBase)
    try:
        if any(flag is not training for flag in flags.values()):
            module.train(training)
        with patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", _is_said_to_be_causal):
            return torch.func.functional_call(module, state, args, kwargs)
    finally:
        vars(module).clear()
        vars(module).update(before)
        for key in hooks:
            del module._forward_pre_hooks[key]
        for inner, flag in flags.items():
            if bool(vars(inner).get("training")) is not flag:
                inner.training = flag


def _is_said_to_be_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Stand in for torch's check, which reads the mask's values; no shape depends on the answer."""
    return bool(is_causal)
