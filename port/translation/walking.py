"""Lengths that a module's own code goes along, step by step: found out by counting what it does at another length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from port.parity.sides.copies import copied
from port.translation.free_lengths import FreeLength, Trials, several_sizes
from port.translation.resizing import Sizes, resized

_SHORT = ((6, 7, 9), (7, 9, 6), (9, 6, 8), (5, 9, 7))
"""Lengths to capture loops at: long enough that they show. Each length has others than the next, to tell them apart."""


def short_sizes(trials: Trials, lengths: Sequence[FreeLength]) -> list[Sizes] | None:
    """Three sets of short lengths that the original takes; others that it takes where it does not take those."""
    if len(lengths) <= len(_SHORT):
        chosen = list(zip(lengths, _SHORT, strict=False))
        found = [{axis: at[number] for length, at in chosen for axis in length.axes} for number in range(3)]
        if all(map(trials.runs, found)):
            return found
    return several_sizes(trials, lengths)


def walked_lengths(
    module: Any, args: Any, kwargs: dict[str, Any], free: Sequence[FreeLength], layers: dict[str, Any]
) -> list[FreeLength]:
    """Those of the free lengths on which it depends how many operators the module's own code calls.

    Args:
        module: the original; it stays as it is.
        args: example inputs.
        kwargs: those by name.
        free: the lengths that the original takes others for.
        layers: those kept whole, by their paths: what they call does not count.
    """
    steps = _steps(module, (args, kwargs), layers) if free else None
    if steps is None:
        return []
    most = max(steps.values(), default=0)
    found = []
    for length in free:
        if most < length.size - 1:
            continue  # nothing is done as often
        others = _steps(module, resized(args, kwargs, length.at(length.other)), layers)
        if others is not None and others.total() != steps.total():
            found.append(length)
    return found


def _steps(module: Any, given: tuple[Any, dict[str, Any]], layers: dict[str, Any]) -> Counter[Any] | None:
    """How often each operator is called on the same shapes, a layer kept whole being one; None if it does not run."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    counts: Counter[Any] = Counter()
    inside: list[str] = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not inside:
                counts[func, tuple(arg.shape for arg in args if isinstance(arg, torch.Tensor))] += 1
            return func(*args, **(kwargs or {}))

    module = copied(module).eval()
    try:
        with torch.no_grad(), _layers_as_one(module, layers, inside, counts), Counting():
            module(*given[0], **given[1])
    except Exception:
        return None
    return counts


@contextmanager
def _layers_as_one(module: Any, layers: dict[str, Any], inside: list[str], counts: Counter[Any]) -> Iterator[None]:
    def enter(path: str) -> Callable[..., None]:
        def entered(module: Any, args: Any) -> None:
            counts[path] += 1
            inside.append(path)

        return entered

    def leave(module: Any, args: Any, result: Any) -> None:
        inside.pop()

    with ExitStack() as hooks:
        for path in layers:
            layer = module.get_submodule(path)
            hooks.callback(layer.register_forward_pre_hook(enter(path)).remove)
            hooks.callback(layer.register_forward_hook(leave, always_call=True).remove)
        yield
