"""A module and its inputs in float64, where they run so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from port.parity.sides.copies import copied
from port.parity.sides.precision import default_dtype
from port.translation.frontend.meta_device import is_on_meta
from port.translation.frontend.shape_runs import ShapeRuns
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, values_of

SINGLE = ("float32", "complex64", "bfloat16", "float16")
"""Precisions below float64's."""


def in_double(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any] | None:
    """Copies of a module and its inputs in float64; None where it does not run so, or gives another precision."""
    import torch
    from torch.utils import _pytree as pytree

    wide = copied(module, lambda tensor: in_float64(_near(tensor)))
    given = pytree.tree_map(in_float64, (args, kwargs))
    try:
        with default_dtype("float64"):
            results = _results(wide, *given, training=False)
    except Exception:
        return None
    floats = [
        leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    ]
    if any(leaf.dtype != torch.float64 for leaf in floats):
        return None
    with default_dtype("float64"):
        trains = runs(wide, *given, training=True)
    return (wide, *given) if trains or not runs(module, args, kwargs, training=True) else None


def runs(module: Any, args: Any, kwargs: Any, *, training: bool) -> bool:
    """Whether a module takes its inputs in a mode; a copy of it is tried."""
    return not forward_error(module, args, kwargs, training=training)


def forward_error(module: Any, args: Any, kwargs: Any, *, training: bool) -> str:
    """Why a module does not take its inputs in a mode, in a line; empty if it does. A copy of it is tried."""
    try:
        _results(module, args, kwargs, training=training)
    except Exception as error:
        return f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    return ""


def _results(module: Any, args: Any, kwargs: Any, *, training: bool) -> Any:
    """What a copy of a module gives in a mode; without numbers where it is on the meta device."""
    import torch

    with torch.no_grad():
        if not is_on_meta(module):
            return copied(module, _near).train(training)(*args, **kwargs)
        run = ShapeRuns(module, training=training)
        return run(*run.given(args, kwargs))


def is_all_double(graphs: Iterable[Graph]) -> bool:
    """Whether all floats in graphs captured in float64 are of that precision, through operators of torch's own.

    Then the module runs so: what it computes in its own precision, it computes in the other. It is not run to find
    out: a depthwise convolution takes PyTorch sixteen times as long in float64 as in float32.
    """
    for graph in graphs:
        values = (*graph.inputs, *graph.held, *graph.constants, *values_of(graph))
        if any(value.dtype in SINGLE for value in values) or not all(map(_is_torchs, graph.steps)):
            return False
    return True


def _is_torchs(step: Any) -> bool:
    match step:
        case Operation():
            return step.operator.startswith("aten.") or "." not in step.operator  # one of Python's, on lengths
        case LayerCall():
            return type(step.module).__module__.startswith(("torch.", "torchvision."))
        case Loop():
            return all(map(_is_torchs, step.steps))
    return True


def without_numbers(tensor: Any, *, double: bool) -> Any:
    """What stands for a tensor in a copy of a module that is traced: a parameter has memory that nothing fills."""
    import torch

    if not isinstance(tensor, torch.nn.Parameter) or tensor.is_meta:
        return in_float64(_near(tensor)) if double else tensor.detach().clone()
    if not double:
        return torch.empty_like(tensor)
    dtype = torch.complex128 if tensor.is_complex() else torch.float64 if tensor.is_floating_point() else tensor.dtype
    return torch.empty_like(tensor, dtype=dtype, device="cpu")


def _near(tensor: Any) -> Any:
    """A tensor in the processor's memory, if it has numbers at all."""
    return tensor if tensor.is_meta else tensor.cpu()


def in_float64(leaf: Any) -> Any:
    """A copy of a tensor, in float64 if it holds floats; anything else as it is."""
    import torch

    if not isinstance(leaf, torch.Tensor):
        return leaf
    copied = leaf.detach().clone()
    if leaf.is_floating_point():
        return copied.double()
    return copied.to(torch.complex128) if leaf.is_complex() else copied


def twice(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Inputs with every sample two times."""
    import torch
    from torch.utils import _pytree as pytree

    def double(leaf: Any) -> Any:
        return torch.cat([leaf, leaf]) if isinstance(leaf, torch.Tensor) and leaf.ndim else leaf

    args, kwargs = pytree.tree_map(double, (args, kwargs))
    return args, kwargs
