"""Trial runs of the original at other lengths: whether it accepts them, and which operators it calls how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from port.parity.sides.copies import copied
from port.parity.sides.precision import default_dtype
from port.translation.frontend.meta_device import is_on_meta, on_meta
from port.translation.frontend.quiet import quiet
from port.translation.frontend.resized_inputs import Axis, Sizes, resized
from port.translation.frontend.shape_runs import UNDECIDED, ShapeRuns, is_lazy_in_part

Steps = Counter[Any]
"""(Operator, shapes), or the path of a layer kept whole → number of calls."""


class Trials:
    """Cached trial runs in evaluation mode.

    Where no value decides, they run on fake tensors, and cost little, however large the module is.

    Args:
        module: the original; left unchanged.
        args: positional example inputs.
        kwargs: example inputs by name.
        layers: paths of the layers kept whole.
    """

    def __init__(self, module: Any, args: Any, kwargs: dict[str, Any], layers: Collection[str] = ()) -> None:
        self.module, self.args, self.kwargs, self.layers = module, args, kwargs, layers
        self._known: dict[frozenset[tuple[Axis, int]], Steps | None] = {}
        self._runners: dict[type[Any], Any] = {}
        self._dtype = str(torch.get_default_dtype()).removeprefix("torch.")

    def runs(self, sizes: Sizes) -> bool:
        """Whether the original accepts inputs of these lengths."""
        return self.steps(sizes) is not None

    def steps(self, sizes: Sizes) -> Steps | None:
        """Count the original's calls on inputs of these lengths; None if it does not accept them."""
        key = frozenset(sizes.items())
        if key not in self._known:
            self._known[key] = self._tried(sizes)
        return self._known[key]

    @cached_property
    def need_numbers(self) -> bool:
        """Whether the original cannot run its example on fake tensors."""
        if is_lazy_in_part(self.module):
            return True
        try:
            self._known[frozenset()] = self._counted(ShapeRuns, {})
        except Exception:
            return True
        return False

    def _tried(self, sizes: Sizes) -> Steps | None:
        if not self.need_numbers:
            try:
                return self._counted(ShapeRuns, sizes)
            except UNDECIDED:
                pass
            except Exception:
                return None
        try:
            return self._counted(_Copy, sizes)
        except Exception:
            return None

    def _counted(self, kind: type[Any], sizes: Sizes) -> Steps:
        if kind not in self._runners:
            self._runners[kind] = kind(self.module, self.layers)
        runner = self._runners[kind]
        before = _state(runner.copy)
        args, kwargs = runner.inputs(*resized(self.args, self.kwargs, sizes))
        counts: Steps = Counter()
        try:
            with (
                quiet(),
                default_dtype(self._dtype),
                torch.no_grad(),
                torch.random.fork_rng(devices=[]),
                _counting(counts, runner, self.layers),
            ):
                runner(args, kwargs)
        finally:
            if _state(runner.copy) != before:
                del self._runners[kind]  # the run changed its state
        return counts


class _Copy:
    """A copy of a module that runs on real numbers."""

    def __init__(self, module: torch.nn.Module, layers: Collection[str]) -> None:
        self.copy = copied(module).eval()

    def inputs(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return inputs on the copy's device."""
        return on_meta(args, kwargs) if is_on_meta(self.copy) else (args, kwargs)

    def __call__(self, args: Any, kwargs: Any) -> Any:
        return self.copy(*args, **kwargs)


def _state(module: Any) -> list[tuple[str, int, int]]:
    """Return the identities and version counters of a module's tensors, which show whether a run wrote to them."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return [(name, id(tensor), tensor._version) for name, tensor in tensors]


@contextmanager
def _counting(counts: Steps, runner: Any, layers: Collection[str]) -> Iterator[None]:
    inside: list[str] = []

    class OperatorCounter(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not inside and func.namespace != "prim":  # queries of a device or a layout
                counts[func, tuple(arg.shape for arg in args if isinstance(arg, torch.Tensor))] += 1
            return func(*args, **(kwargs or {}))

    def enter(path: str) -> Callable[..., None]:
        def entered(module: Any, args: Any) -> None:
            counts[path] += 1
            inside.append(path)

        return entered

    def leave(module: Any, args: Any, result: Any) -> None:
        inside.pop()

    with ExitStack() as stack:
        for path in layers:
            layer = runner.copy.get_submodule(path)
            stack.callback(layer.register_forward_pre_hook(enter(path)).remove)
            stack.callback(layer.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(OperatorCounter())
        yield
