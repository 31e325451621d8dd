"""Record the calls of a Flax model's layers, and the gradient that arrives at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.extend.core import get_opaque_trace_state

from port.parity.sides.calls import RecordedCall, is_inexact
from port.parity.sides.structure import rebuilt


class Tap:
    """A hook around every call of a layer.

    Layers inside a function that jax transforms (scan, jit, remat, vmap) are not recorded: their values are not
    available outside.

    Args:
        perturbations: call → output → an array that is added to that output. It is zero, and its gradient is the one
            that arrives at the output.
    """

    def __init__(self, perturbations: dict[str, dict[str, Any]] | None = None) -> None:
        self.calls: list[RecordedCall] = []
        self.hidden: set[str] = set()
        self._perturbations = perturbations or {}
        self._counts: dict[str, int] = {}
        self._outside = _trace()

    def __call__(self, path: str, layer: Any, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run and record a layer's call, and return its perturbed output."""
        if _trace() != self._outside:
            self.hidden.add(path)
            return run(*args, **kwargs)
        number = self._counts[path] = self._counts.get(path, -1) + 1
        call = RecordedCall(path, number, tuple(args), dict(kwargs), layer=layer)
        call.output = run(*args, **kwargs)
        self.calls.append(call)
        added = self._perturbations.get(call.key)
        if not added:
            return call.output
        return rebuilt(call.output, lambda name, leaf: leaf + added[name] if is_inexact(leaf) else leaf)


def _trace() -> Any:
    return get_opaque_trace_state(convention="nnx")
