"""Run a module and its inputs in float64, where possible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from port.parity.sides.copies import copied
from port.parity.sides.precision import default_dtype
from port.translation.frontend.meta_device import is_on_meta
from port.translation.frontend.shape_runs import ShapeRuns
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, values_of

SINGLE = ("float32", "complex64", "bfloat16", "float16")
"""Dtypes of lower precision than float64 and complex128."""


def in_double(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any] | None:
    """Copy a module and its inputs to float64; None where it does not run in float64, or returns another precision."""
    import torch
    from torch.utils import _pytree as pytree

    wide = copied(module, lambda tensor: in_float64(_on_cpu(tensor)))
    inputs = pytree.tree_map(in_float64, (args, kwargs))
    try:
        with default_dtype("float64"):
            results = _results(wide, *inputs, training=False)
    except Exception:
        return None
    floats = [
        leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    ]
    if any(leaf.dtype != torch.float64 for leaf in floats):
        return None
    with default_dtype("float64"):
        trains = runs(wide, *inputs, training=True)
    return (wide, *inputs) if trains or not runs(module, args, kwargs, training=True) else None


def runs(module: Any, args: Any, kwargs: Any, *, training: bool) -> bool:
    """Whether a module accepts its inputs in a mode; a copy is run."""
    return not forward_error(module, args, kwargs, training=training)


def forward_error(module: Any, args: Any, kwargs: Any, *, training: bool) -> str:
    """Run a copy of a module in a mode, and return the error's type and first line; empty if it runs."""
    try:
        _results(module, args, kwargs, training=training)
    except Exception as error:
        return f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    return ""


def _results(module: Any, args: Any, kwargs: Any, *, training: bool) -> Any:
    """Run a copy of a module in a mode; on fake tensors if it is on the meta device."""
    import torch

    with torch.no_grad():
        if not is_on_meta(module):
            return copied(module, _on_cpu).train(training)(*args, **kwargs)
        run = ShapeRuns(module, training=training)
        return run(*run.inputs(args, kwargs))


def is_all_double(graphs: Iterable[Graph]) -> bool:
    """Whether graphs captured in float64 hold only float64, computed by torch's own operators.

    Then the module runs in float64, and need not be run to find out: a depthwise convolution takes PyTorch sixteen
    times as long in float64 as in float32.
    """
    for graph in graphs:
        values = (*graph.inputs, *graph.held, *graph.constants, *values_of(graph))
        if any(value.dtype in SINGLE for value in values) or not all(map(_is_torchs, graph.steps)):
            return False
    return True


def _is_torchs(step: Any) -> bool:
    match step:
        case Operation():
            return step.operator.startswith("aten.") or "." not in step.operator  # a Python operator, on lengths
        case LayerCall():
            return type(step.module).__module__.startswith(("torch.", "torchvision."))
        case Loop():
            return all(map(_is_torchs, step.steps))
    return True


def without_numbers(tensor: Any, *, double: bool) -> Any:
    """Copy a tensor for a module that is only traced: parameters are left uninitialised, to save time."""
    import torch

    if not isinstance(tensor, torch.nn.Parameter) or tensor.is_meta:
        return in_float64(_on_cpu(tensor)) if double else tensor.detach().clone()
    if not double:
        return torch.empty_like(tensor)
    dtype = torch.complex128 if tensor.is_complex() else torch.float64 if tensor.is_floating_point() else tensor.dtype
    return torch.empty_like(tensor, dtype=dtype, device="cpu")


def _on_cpu(tensor: Any) -> Any:
    """Move a tensor to the CPU, unless it is on the meta device."""
    return tensor if tensor.is_meta else tensor.cpu()


def in_float64(leaf: Any) -> Any:
    """Copy a tensor, to float64 or complex128 if it is floating-point or complex; return anything else unchanged."""
    import torch

    if not isinstance(leaf, torch.Tensor):
        return leaf
    copied = leaf.detach().clone()
    if leaf.is_floating_point():
        return copied.double()
    return copied.to(torch.complex128) if leaf.is_complex() else copied


def twice(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Concatenate each input with itself along its first axis."""
    import torch
    from torch.utils import _pytree as pytree

    def double(leaf: Any) -> Any:
        return torch.cat([leaf, leaf]) if isinstance(leaf, torch.Tensor) and leaf.ndim else leaf

    args, kwargs = pytree.tree_map(double, (args, kwargs))
    return args, kwargs
