"""Record every call of a module's ``forward`` during an export, and keep layers with a pair whole."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import FunctionType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.pairs.layers.computed_weight import computing_hooks
from port.translation.frontend import custom_ops as markers
from port.translation.frontend.branch_selection import refuse_statistics
from port.translation.frontend.layer_shapes import described, description, form_of, of_form, shapes_of
from port.translation.frontend.long_formulas import check_lengths_are_short
from port.translation.frontend.mode_reads import ModeReads
from port.translation.frontend.opened_objects import opened
from port.translation.frontend.origins.argument_origins import ArgumentOrigins
from port.translation.frontend.packed_sequences import refuse_traced, repacked_results, unpacked_arguments
from port.translation.ir.idle_modules import idle_modules
from port.translation.ir.module_calls import FORWARD
from port.translation.ir.number import Numbers

_captures = count()


@dataclass(frozen=True)
class TensorSlot:
    """Placeholder in a tree for the tensor or symbolic size with this number, among those of a mark or a layer."""

    kind: str
    number: int


@dataclass
class Noted:
    """The arguments and results of one call, with slots in place of tensors.

    For a call of ``forward`` or another method, ``keywords`` holds all arguments by name and ``arguments`` is empty; at
    its end, ``keywords`` holds the buffers that it replaced. ``numbers`` holds the origins of numeric arguments.
    """

    path: str
    call: int
    module: torch.nn.Module
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    results: Any = None
    numbers: Numbers = field(default_factory=dict)
    method: str = FORWARD


@dataclass
class NotedFunction:
    """The arguments, by parameter name, and results of one function call, with slots in place of tensors.

    ``positional`` and ``named`` are the parameters that the call passes by position and by name.
    """

    function: FunctionType
    call: int
    arguments: dict[str, Any]
    positional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    results: Any = None
    numbers: Numbers = field(default_factory=dict)


@dataclass
class Notes:
    """The side table of a capture: a node's key → what the graph itself cannot hold.

    ``in_layer`` is True while a layer kept whole runs to find its output shapes. ``open`` lists the calls in progress,
    innermost last, as their `key_of` and their module; a function has none.
    """

    prefix: str
    reads: ModeReads
    origins: ArgumentOrigins
    calls: dict[str, Noted] = field(default_factory=dict)
    functions: dict[str, NotedFunction] = field(default_factory=dict)
    marks: list[torch.Tensor] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    shapes: dict[Any, Any] = field(default_factory=dict)
    in_layer: bool = False
    open: list[tuple[str, torch.nn.Module | None]] = field(default_factory=list)

    def next_call(self, path: str) -> int:
        """Count a call at a path, and return its number, from 0."""
        number = self.counts.get(path, 0)
        self.counts[path] = number + 1
        return number

    @contextmanager
    def within(self, key: str, module: torch.nn.Module | None) -> Iterator[None]:
        """Keep a call of a module or a function open, within the context."""
        self.open.append((key, module))
        try:
            yield
        finally:
            self.open.pop()

    @contextmanager
    def within_layer(self) -> Iterator[None]:
        """Set `in_layer`, within the context."""
        before, self.in_layer = self.in_layer, True
        try:
            yield
        finally:
            self.in_layer = before


@contextmanager
def wrapped(module: torch.nn.Module, whole: Callable[[torch.nn.Module, str], bool]) -> Iterator[Notes]:
    """Record calls of the module and its submodules, within the context.

    Args:
        module: the root module.
        whole: whether the module at a path is kept whole, as a leaf; its submodules are then skipped.
    """
    notes = Notes(f"{next(_captures)}/", ModeReads(module), ArgumentOrigins(module))
    before: list[tuple[torch.nn.Module, dict[str, Any], dict[int, Any]]] = []
    idle = idle_modules(module)

    def wrap(path: str, inner: torch.nn.Module, seen: set[int]) -> None:
        if id(inner) in seen:
            return
        seen.add(id(inner))
        before.append((inner, dict(vars(inner)), dict(inner._forward_pre_hooks)))
        if path in idle:
            vars(inner)["forward"] = _layer(notes, path, inner, inner.forward, {})
            return
        if whole(inner, path):
            # The layer's twin computes its own weight.
            hooks = {key: inner._forward_pre_hooks.pop(key) for key in computing_hooks(inner)}
            vars(inner)["forward"] = _layer(notes, path, inner, inner.forward, hooks)
            return
        for name, child in inner.named_children():
            wrap(f"{path}.{name}" if path else name, child, seen)
        vars(inner)["forward"] = _scope(notes, path, inner, inner.forward)

    try:
        wrap("", module, set())
        yield notes
    finally:
        for inner, attributes, hooks in before:
            vars(inner).clear()
            vars(inner).update(attributes)
            inner._forward_pre_hooks.clear()
            inner._forward_pre_hooks.update(hooks)
        markers.forget(notes.prefix)


def with_slots(tree: Any) -> tuple[Any, list[Any], list[Any]]:
    """Replace tensors and symbolic sizes in a tree by slots; return the tree, the tensors and the sizes."""
    tensors: list[Any] = []
    sizes: list[Any] = []

    def hole(leaf: Any) -> Any:
        kept = tensors if isinstance(leaf, torch.Tensor) else sizes if isinstance(leaf, torch.SymInt) else None
        if kept is None:
            return leaf
        kept.append(leaf)
        return TensorSlot("tensor" if kept is tensors else "size", len(kept) - 1)

    return pytree.tree_map(hole, tree), tensors, sizes


def positional_names(signature: inspect.Signature) -> list[str]:
    """Return the names of the parameters that a call may pass by position."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [parameter.name for parameter in signature.parameters.values() if parameter.kind in kinds]


def _scope(notes: Notes, path: str, module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(forward)
    names = positional_names(signature)
    function = f"{type(module).__qualname__}.forward"

    def noted(*args: Any, **kwargs: Any) -> Any:
        refuse_traced(module, (args, kwargs))
        call = notes.next_call(path)
        key = f"{notes.prefix}{path}#{call}"
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments, tensors, sizes = with_slots(opened(dict(bound.arguments)))
        check_lengths_are_short(tensors)
        numbers = notes.origins.of_forward(sys._getframe(), names, function, arguments)
        notes.calls[f"{key}>"] = Noted(path, call, module, keywords=arguments, numbers=numbers)
        notes.marks.append(markers.mark(f"{key}>", tensors, sizes))
        before = dict(module._buffers)
        with notes.within(path, module):
            results = forward(*args, **kwargs)
        # torch.export sees writes to a buffer, but the replacement of a buffer only in the root module.
        replaced = {name: buffer for name, buffer in module._buffers.items() if buffer is not before.get(name)}
        # The root's results are compared with the original's, so its objects stay closed.
        (returned, buffers), tensors, sizes = with_slots((opened(results, objects=bool(path)), replaced))
        notes.calls[f"{key}<"] = Noted(path, call, module, keywords=buffers, results=returned)
        notes.marks.append(markers.mark(f"{key}<", tensors, sizes))
        return results

    return noted


def _layer(
    notes: Notes, path: str, module: torch.nn.Module, forward: Callable[..., Any], hooks: dict[int, Any]
) -> Callable[..., Any]:
    def kept(*args: Any, **kwargs: Any) -> Any:
        refuse_statistics(path, module)
        key = f"{notes.prefix}{path}#{notes.next_call(path)}"
        args, kwargs, packed = unpacked_arguments(module, args, kwargs)
        lengths = {} if packed is None else {"lengths": packed.lengths}  # an extra argument of the twin
        (arguments, keywords), tensors, sizes = with_slots((args, {**kwargs, **lengths}))
        numbers = notes.origins.of_layer(sys._getframe(), arguments, keywords)
        noted = Noted(path, 0, module, arguments, keywords, numbers=numbers)

        def fake(inputs: list[Any]) -> list[Any]:
            request = identity, described(inputs)
            if request not in known:
                numbered = iter(inputs)
                filled = pytree.tree_map(lambda leaf: next(numbered) if isinstance(leaf, torch.Tensor) else leaf, call)

                def outputs_in(other_mode: bool) -> tuple[Any, list[torch.Tensor]]:
                    tree, outputs, _ = with_slots(shapes_of(module, forward, hooks, *filled, other_mode=other_mode))
                    return tree, [output.clone() for output in outputs]

                with notes.within_layer():
                    tree, outputs = notes.reads.of_layer(outputs_in, lambda made: (repr(made[0]), described(made[1])))
                known[request] = tree, list(map(form_of, outputs))
            noted.results, forms = known[request]
            return list(map(of_form, forms))

        call = (args, kwargs)
        # Identical layers share their output shapes; even for one layer, torch.export and later passes ask three times.
        alike = description(module) if not hooks else None
        identity = key if alike is None else (alike, repr((arguments, keywords)))
        known = notes.shapes
        notes.calls[key] = noted
        outputs = markers.layer(key, fake, tensors, sizes)
        if any(True for _ in module.buffers()):
            # Keep the layer in the graph even if its output is unused: a BatchNorm counts its batches.
            notes.marks += outputs[:1]
        results = _refilled(noted.results, outputs)
        return results if packed is None else repacked_results(module, results, packed)

    return kept


def _refilled(tree: Any, tensors: list[Any]) -> Any:
    return pytree.tree_map(lambda leaf: tensors[leaf.number] if isinstance(leaf, TensorSlot) else leaf, tree)
