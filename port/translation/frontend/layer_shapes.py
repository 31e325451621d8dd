"""What a layer kept whole gives for tensors without numbers; layers that are alike are asked once."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, FunctionType, BuiltinFunctionType)


def description(module: torch.nn.Module) -> Any:
    """What two of torch's own layers share that give results of the same shapes; None for any other layer.

    It is all that a layer holds, but for the numbers of its tensors.
    """
    if not type(module).__module__.startswith("torch.nn."):
        return None
    found: list[Any] = [type(module)]
    for name, value in vars(module).items():
        if name == "_modules":
            said: Any = [(key, child and description(child)) for key, child in value.items()]
            if any(child is not None and of is None for child, (_, of) in zip(value.values(), said, strict=True)):
                return None
        elif name in ("_parameters", "_buffers"):
            said = [(key, tensor is not None and (tensor.dtype, tuple(tensor.shape))) for key, tensor in value.items()]
        elif name == "forward":
            continue  # what notes the call
        elif isinstance(value, tuple | list):
            if not all(isinstance(item, _PLAIN) for item in value):
                return None
            said = value
        elif not isinstance(value, _PLAIN) and value:
            return None  # a hook, or what it keeps
        else:
            said = (value,) if isinstance(value, _PLAIN) else ()
        found.append((name, tuple(said)))
    return tuple(found)


def described(tensors: list[torch.Tensor]) -> tuple[Any, ...]:
    """What the shapes of a layer's outputs depend on; a symbolic length by its formula, as `==` would be a guard."""

    def said(length: Any) -> Any:
        return length.node.expr if isinstance(length, torch.SymInt) else length

    return tuple((*map(said, x.size()), *map(said, x.stride()), x.dtype, x.device) for x in tensors)


Form = tuple[Any, ...]
"""What a tensor is but for its numbers: size, stride, dtype, device."""


def form_of(tensor: torch.Tensor) -> Form:
    return tensor.size(), tensor.stride(), tensor.dtype, tensor.device


def of_form(form: Form) -> torch.Tensor:
    """A tensor of a form, its memory not filled."""
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
    """What a layer gives for fake tensors, in its mode or the other; a layer that normalises a batch is in evaluation.

    There training asks for values, and the shapes are the same.
    """
    from torch._guards import detect_fake_mode

    # Without a tensor among the arguments there is no mode, and then nothing is fake.
    mode = detect_fake_mode(pytree.tree_leaves((args, kwargs)))
    if mode is None:
        if other_mode:
            raise ValueError("a run with numbers is that of one mode")
        return forward(*args, **kwargs)
    if isinstance(module, torch.nn.CTCLoss | torch.nn.GaussianNLLLoss) and module.reduction != "none":
        # These ask for values, or have no code for tensors without any.
        return next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if leaf.is_floating_point()).new_empty(())
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    state: dict[str, torch.Tensor] = {
        name: mode.from_tensor(tensor.detach(), static_shapes=True) for name, tensor in held.items()
    }
    before = dict(vars(module))
    del vars(module)["forward"]
    module._forward_pre_hooks.update(hooks)  # torch's own forward wants the weight that they compute
    # Read by the names of attributes: `ModeReads` is to see what the layer itself reads.
    flags = {inner: bool(vars(inner).get("training")) for inner in module.modules()}
    # Only what counts its batches has another code for training; attention has a fused one for evaluation.
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
    """torch looks at a mask's values to find out; no shape depends on it."""
    return bool(is_causal)
