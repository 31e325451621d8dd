"""``torch.autograd.Function``: a backward pass of the user's own, said by what JAX differentiates by itself.

An exported graph has the forward pass alone. Each such function is tried on random numbers, both ways. Where its
gradient is the one that its forward has anyway (a function that only saves memory), nothing is to be said. Where each
number's gradient is that of its own result times a slope (gradients reversed or scaled, straight-through estimators),
the slope is traced too, and stands in the graph as ``stop(f(x)) + stop(slope) · (x − stop(x))``: f's values, and the
user's gradient. For any other the forward is left as it is, and named: the proof then says what its gradient lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from port.translation.graph import Place
from port.translation.places import as_with_gradients

_AS_IT_IS, _SLOPE, _UNKNOWN = "as it is", "slope", "unknown"


class _Context:
    """What ``ctx`` is, of which nothing but the user's code asks."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None: ...

    def mark_dirty(self, *tensors: Any) -> None: ...

    def mark_non_differentiable(self, *tensors: Any) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


@contextmanager
def traced_functions() -> Iterator[dict[str, Place]]:
    """Within it, functions of the user's own are traced with their gradient.

    Yields:
        the names of those whose gradient could not be said → where they are.
    """
    unsaid: dict[str, Place] = {}
    functions = [cls for cls in _subclasses(torch.autograd.Function) if cls.__module__.partition(".")[0] != "torch"]
    # Each has its own backward, though several may have one forward.
    traced = {cls: _traced(cls, cls.forward, unsaid) for cls in functions}
    before = {cls: vars(cls).get("forward") for cls in functions}
    try:
        for cls, forward in traced.items():
            cls.forward = staticmethod(forward)
        yield unsaid
    finally:
        for cls, forward in before.items():
            if forward is None:
                del cls.forward
            else:
                cls.forward = forward


def _subclasses(cls: Any) -> set[Any]:
    return {found for inner in cls.__subclasses__() for found in (inner, *_subclasses(inner))}


def _traced(cls: Any, forward: Callable[..., Any], unsaid: dict[str, Place]) -> Callable[..., Any]:
    apart = cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context

    def run(args: tuple[Any, ...]) -> tuple[_Context, Any]:
        context = _Context(tuple(isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args))
        if not apart:
            return context, forward(context, *args)
        result = forward(*args)
        cls.setup_context(context, args, result)
        return context, result

    def traced(*given: Any) -> Any:
        args = given if apart else given[1:]  # the context that torch gives is not ready yet
        kind = _kind(cls, run, args)
        with as_with_gradients():  # torch turns them off here, where none but the user's own are meant
            context, result = run(args)
            if kind == _SLOPE:
                return _with_slopes(cls, context, args, result)
            if kind == _UNKNOWN:
                code = forward.__code__
                unsaid[cls.__qualname__] = Place(code.co_filename, code.co_firstlineno)
            return result

    return traced


def _with_slopes(cls: Any, context: _Context, args: tuple[Any, ...], result: Any) -> Any:
    slopes = _backward(cls, context, torch.ones_like(result))
    total = result.detach()
    for arg, slope in zip(args, slopes, strict=False):
        if slope is not None:
            total = total + slope.detach() * (arg - arg.detach())
    return total


def _backward(cls: Any, context: _Context, *gradients: Any) -> tuple[Any, ...]:
    found = cls.backward(context, *gradients)
    return tuple(found) if isinstance(found, tuple | list) else (found,)


# %% Which kind, tried on random numbers


def _kind(cls: Any, run: Callable[..., Any], args: tuple[Any, ...]) -> str:
    # Nothing of it is traced; nor that gradients are turned on for it.
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            given = pytree.tree_map(_random, args)
            context, result = run(given)
            if not isinstance(result, torch.Tensor):
                return _UNKNOWN
            gradient = torch.randn_like(result)
            own = _backward(cls, context, gradient)
            if _same(own, _of_forward(run, given, gradient)):
                return _AS_IT_IS
            slopes = _backward(cls, run(given)[0], torch.ones_like(result))
            scaled = [None if slope is None else slope * gradient for slope in slopes]
            alike = all(
                slope is None or slope.shape == arg.shape == result.shape
                for slope, arg in zip(slopes, given, strict=False)
            )
            return _SLOPE if alike and _same(own, scaled) else _UNKNOWN
        except Exception:  # the user's code, on numbers that it was not made for
            return _UNKNOWN


def _of_forward(run: Callable[..., Any], args: tuple[Any, ...], gradient: Any) -> list[Any]:
    """The gradients that the forward has by itself, zeros where it has none."""
    leaves = [
        arg.clone().requires_grad_() if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg
        for arg in args
    ]
    with torch.enable_grad():
        result = run(tuple(leaves))[1]
        total = (result * gradient).sum()
    smooth = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    found = iter(torch.autograd.grad(total, smooth, allow_unused=True) if total.requires_grad else [None] * len(smooth))
    return [next(found) if isinstance(leaf, torch.Tensor) and leaf.requires_grad else None for leaf in leaves]


def _same(ours: Any, theirs: Any) -> bool:
    for one, other in zip(ours, theirs, strict=False):
        if one is None and other is None:
            continue
        if one is None or other is None:
            one, other = one if one is not None else torch.zeros_like(other), other if other is not None else 0 * one
        if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-9, atol=1e-12):
            return False
    return True


def _random(leaf: Any) -> Any:
    """A tensor of a traced one's shape, of random numbers of both signs and beyond 1."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    shape = [length if isinstance(length, int) else int(length.node.hint) for length in leaf.shape]
    if leaf.is_floating_point():
        return 2 * torch.randn(shape, dtype=torch.float64)
    return torch.zeros(shape, dtype=leaf.dtype)
