"""Capture the custom gradients of ``torch.autograd.Function``, which an exported graph does not contain.

Each function is tried on random inputs of several magnitudes, forward and backward. There are three cases:

- Its gradient equals the autograd gradient of its forward (a function that only saves memory): the forward is traced.
- Each element's gradient is the output's gradient times a slope (reversed or scaled gradients, straight-through
  estimators): the slope is traced too, and the source calls `port.nn.functional.sloped`.
- Anything else: the forward is traced and the function is reported, so that the proof can explain a wrong gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.autograd import function as functions
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from port.translation.frontend import custom_ops as markers
from port.translation.frontend.instrument import Notes
from port.translation.ir.source_location import SourceLocation

_AUTOGRAD, _SLOPE, _UNKNOWN = "autograd", "slope", "unknown"


class _Context:
    """Stand-in for the ``ctx`` argument of the user's forward and backward."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args)
        self.saved_tensors: tuple[Any, ...] = ()

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        return self.saved_tensors

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None: ...

    def mark_dirty(self, *tensors: Any) -> None: ...

    def mark_non_differentiable(self, *tensors: Any) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


@contextmanager
def traced_functions(notes: Notes) -> Iterator[dict[str, None]]:
    """Trace user-defined autograd functions with their custom gradients, within the context.

    Args:
        notes: the capture's notes; trial runs leave them unchanged.

    Yields:
        The functions whose gradient could not be expressed, as ``Name (file:line)``.
    """
    inexpressible: dict[str, None] = {}
    before: dict[Any, Any] = {}
    made = functions.FunctionMeta.__init__

    def patched(cls: Any, name: str, bases: Any, attributes: Any) -> None:
        made(cls, name, bases, attributes)
        trace(cls)

    def trace(cls: Any) -> None:
        if cls.__module__.partition(".")[0] != "torch":
            before[cls] = vars(cls).get("forward")
            cls.forward = staticmethod(_Traced(cls, forwards.get(cls, cls.forward), notes, inexpressible))

    known = _subclasses(torch.autograd.Function)
    # Collect all forwards first: classes may share a forward and differ in their backward.
    forwards = {cls: cls.forward for cls in known}
    try:
        functions.FunctionMeta.__init__ = patched  # type: ignore[method-assign]
        for cls in known:
            trace(cls)
        yield inexpressible
    finally:
        functions.FunctionMeta.__init__ = made  # type: ignore[method-assign]
        for cls, forward in before.items():
            if forward is None:
                del cls.forward
            else:
                cls.forward = forward


def _subclasses(cls: Any) -> set[Any]:
    return {found for inner in cls.__subclasses__() for found in (inner, *_subclasses(inner))}


class _Traced:
    """Replacement for an autograd function's forward, which also traces its slope."""

    in_trial = False

    def __init__(self, cls: Any, forward: Callable[..., Any], notes: Notes, inexpressible: dict[str, None]) -> None:
        self.cls, self.notes, self.inexpressible = cls, notes, inexpressible
        # A class that is defined during the trace may inherit another class's replacement.
        self.forward: Callable[..., Any] = forward.forward if isinstance(forward, _Traced) else forward
        self.has_setup_context = cls.setup_context is not functions._SingleLevelFunction.setup_context

    def __call__(self, *inputs: Any) -> Any:
        if _Traced.in_trial:
            return self.forward(*inputs)
        args = inputs if self.has_setup_context else inputs[1:]  # torch's own context is not initialised yet
        kind = self._kind(args)
        with _gradients_on():
            context, result = self._run(args)
            if kind == _SLOPE:
                return self._with_slopes(context, args, result)
        if kind == _UNKNOWN:
            code = getattr(inspect.unwrap(self.forward), "__code__", None)
            where = "" if code is None else f" ({SourceLocation(code.co_filename, code.co_firstlineno)})"
            self.inexpressible[f"{self.cls.__qualname__}{where}"] = None
        return result

    def _run(self, args: tuple[Any, ...]) -> tuple[_Context, Any]:
        context = _Context(args)
        if not self.has_setup_context:
            return context, self.forward(context, *args)
        result = self.forward(*args)
        self.cls.setup_context(context, args, result)
        return context, result

    def _with_slopes(self, context: _Context, args: tuple[Any, ...], result: Any) -> Any:
        slopes = self._backward(context, torch.ones_like(result))
        total = result.detach()
        for arg, slope in _pairs(args, slopes):
            if slope is not None:
                total = markers.sloped(total, arg, slope.detach())
        return total

    def _backward(self, context: _Context, gradient: Any) -> tuple[Any, ...]:
        found = self.cls.backward(context, gradient)
        return tuple(found) if isinstance(found, tuple | list) else (found,)

    # %% Classify the gradient by trial on random numbers

    def _kind(self, args: tuple[Any, ...]) -> str:
        if any(callable(leaf) for leaf in pytree.tree_leaves(args)):
            return _UNKNOWN  # a trial might call a module, and torch.export counts every call
        notes = self.notes
        kept = list(notes.marks), dict(notes.counts), dict(notes.calls)
        _Traced.in_trial = True
        try:
            # The trial must not be traced, nor the switch that turns gradients on for it.
            with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]):
                trials = [
                    self._matching_kinds(args, numbers, size) for numbers in _NUMBERS for size in (1e-2, 1.0, 1e3)
                ]
        finally:
            _Traced.in_trial = False
            notes.marks[:], (notes.counts, notes.calls) = kept[0], kept[1:]
        fitting = set.intersection(*(trial for trial in trials if trial is not None)) if any(trials) else set()
        return next((kind for kind in (_AUTOGRAD, _SLOPE) if kind in fitting), _UNKNOWN)

    def _matching_kinds(self, args: tuple[Any, ...], numbers: Callable[[Any], Any], size: float) -> set[str] | None:
        """Return the kinds that match the gradient in one trial; None where the user's code rejects such numbers."""

        def run(args: tuple[Any, ...]) -> tuple[_Context, Any]:
            torch.manual_seed(1)
            return self._run(args)

        torch.manual_seed(0)
        try:
            inputs = pytree.tree_map(lambda leaf: _random(leaf, numbers), args)
            context, result = run(inputs)
            if not isinstance(result, torch.Tensor):
                return set()
            gradient = size * torch.randn(result.shape, dtype=result.dtype)
            own = self._backward(context, gradient)
            slopes = self._backward(run(inputs)[0], torch.ones_like(result))
            found = {_AUTOGRAD} if _same(own, _autograd_gradients(run, inputs, gradient)) else set()
            shapes = [(slope.shape, arg.shape) for arg, slope in _pairs(inputs, slopes) if slope is not None]
            alike = all(shape == (result.shape, result.shape) for shape in shapes)
            if alike and _same(own, [None if slope is None else slope * gradient for slope in slopes]):
                found.add(_SLOPE)
        except Exception:  # whatever it raises
            return None
        return found


@contextmanager
def _gradients_on() -> Iterator[None]:
    """Keep gradients on within the context, without a node for it in the graph.

    torch turns gradients off inside a custom forward, and the user's code may too; neither affects the custom gradient.
    """
    before, turn = torch.is_grad_enabled(), torch._C._set_grad_enabled
    with torch._C.DisableTorchFunction():
        turn(True)
    try:
        with patch.object(torch._C, "_set_grad_enabled", lambda mode: None):
            yield
    finally:
        with torch._C.DisableTorchFunction():
            turn(before)


def _pairs(args: tuple[Any, ...], gradients: Any) -> Iterator[tuple[Any, Any]]:
    return zip(args, gradients, strict=False)  # torch allows trailing extra gradients that are None


def _autograd_gradients(run: Callable[..., Any], args: tuple[Any, ...], gradient: Any) -> list[Any]:
    """Return the gradients that autograd derives from the forward alone."""
    inputs = [arg.clone().requires_grad_() if _is_smooth(arg) else arg for arg in args]
    with torch.enable_grad():
        total = (run(tuple(inputs))[1] * gradient).sum()
    smooth = [arg for arg in inputs if _is_smooth(arg)]
    gradients = torch.autograd.grad(total, smooth, allow_unused=True) if total.requires_grad else [None] * len(smooth)
    found = iter(gradients)
    return [next(found) if _is_smooth(arg) else None for arg in inputs]


def _is_smooth(arg: Any) -> bool:
    return isinstance(arg, torch.Tensor) and arg.is_floating_point()


def _same(ours: Any, theirs: Any) -> bool:
    """Whether gradients are equal; None counts as zero."""
    for one, other in zip(ours, theirs, strict=False):
        if one is None and other is None:
            continue
        one = torch.zeros_like(other) if one is None else one
        other = torch.zeros_like(one) if other is None else other
        if one.shape != other.shape or not torch.allclose(one.double(), other.double(), 1e-5, 1e-12, equal_nan=True):
            return False
    return True


_NUMBERS: tuple[Callable[[Any], Any], ...] = (
    lambda shape: 2 * torch.randn(shape, dtype=torch.float64),
    lambda shape: 1e-2 * torch.randn(shape, dtype=torch.float64),
    lambda shape: 1e3 * torch.randn(shape, dtype=torch.float64),
    lambda shape: torch.rand(shape, dtype=torch.float64),  # probabilities
)


def _random(leaf: Any, numbers: Callable[[Any], Any]) -> Any:
    """Return a random tensor of a traced tensor's shape."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    shape = [length if isinstance(length, int) else int(length.node.hint) for length in leaf.shape]
    return numbers(shape) if leaf.is_floating_point() else torch.randint(0, 2, shape).to(leaf.dtype)
