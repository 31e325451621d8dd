"""For the time of an export, every module's ``forward`` notes down its calls, and layers with a pair are kept whole."""

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
from port.translation.frontend.packed_sequences import given_by_layer, given_to_layer, refuse_traced
from port.translation.ir.idle_modules import idle_modules
from port.translation.ir.module_calls import FORWARD
from port.translation.ir.number import Numbers

_captures = count()


@dataclass(frozen=True)
class TensorSlot:
    """Stands in a tree for the tensor, or the symbolic size, of this number among those of a mark or a layer."""

    kind: str
    number: int


@dataclass
class Noted:
    """What one call was given and gave, its tensors replaced by holes.

    A call of ``forward``, or of another method, has ``keywords`` by the parameters' names and no ``arguments``; its end
    has as ``keywords`` the buffers that it put others in the place of. ``numbers`` has the origins of the numbers that
    it was given.
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
    """What one call of a function was given, by its parameters' names, and gave; its tensors replaced by holes.

    ``positional`` and ``named`` are the parameters that the call gives by their places, and by name.
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
    """The side table of a capture: a node's key → what the graph does not say.

    ``in_layer`` is whether what runs now is a layer that is kept whole, to see which shapes it gives; ``open`` are the
    calls that have begun, as `key_of` says them, the innermost last, each with its
    module; a function has none.
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
        number = self.counts.get(path, 0)
        self.counts[path] = number + 1
        return number

    @contextmanager
    def within(self, key: str, module: torch.nn.Module | None) -> Iterator[None]:
        """Within it, a call of a module's runs, or of a function."""
        self.open.append((key, module))
        try:
            yield
        finally:
            self.open.pop()

    @contextmanager
    def within_layer(self) -> Iterator[None]:
        """Within it, a layer runs that is kept whole."""
        before, self.in_layer = self.in_layer, True
        try:
            yield
        finally:
            self.in_layer = before


@contextmanager
def wrapped(module: torch.nn.Module, whole: Callable[[torch.nn.Module, str], bool]) -> Iterator[Notes]:
    """Within it, calls of the module and of those inside are noted.

    Args:
        module: the root.
        whole: whether a module at a path is kept whole, as a layer; what is inside is then not looked at.
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
            # The layer's twin computes its weight itself.
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


def emptied(tree: Any) -> tuple[Any, list[Any], list[Any]]:
    """A tree with holes, its tensors, and its symbolic sizes."""
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
    """The parameters that a call may give by their places."""
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
        arguments, tensors, sizes = emptied(opened(dict(bound.arguments)))
        check_lengths_are_short(tensors)
        numbers = notes.origins.of_forward(sys._getframe(), names, function, arguments)
        notes.calls[f"{key}>"] = Noted(path, call, module, keywords=arguments, numbers=numbers)
        notes.marks.append(markers.mark(f"{key}>", tensors, sizes))
        before = dict(module._buffers)
        with notes.within(path, module):
            results = forward(*args, **kwargs)
        # torch.export itself sees what is written into a buffer, and what is put in its place in the root alone.
        replaced = {name: buffer for name, buffer in module._buffers.items() if buffer is not before.get(name)}
        # The root's results are compared with the original's own: objects in them say nothing of what they hold.
        (given, buffers), tensors, sizes = emptied((opened(results, objects=bool(path)), replaced))
        notes.calls[f"{key}<"] = Noted(path, call, module, keywords=buffers, results=given)
        notes.marks.append(markers.mark(f"{key}<", tensors, sizes))
        return results

    return noted


def _layer(
    notes: Notes, path: str, module: torch.nn.Module, forward: Callable[..., Any], hooks: dict[int, Any]
) -> Callable[..., Any]:
    def kept(*args: Any, **kwargs: Any) -> Any:
        refuse_statistics(path, module)
        key = f"{notes.prefix}{path}#{notes.next_call(path)}"
        args, kwargs, packed = given_to_layer(module, args, kwargs)
        told = {} if packed is None else {"lengths": packed.lengths}  # what the twin takes beside
        (arguments, keywords), tensors, sizes = emptied((args, {**kwargs, **told}))
        numbers = notes.origins.of_layer(sys._getframe(), arguments, keywords)
        noted = Noted(path, 0, module, arguments, keywords, numbers=numbers)

        def fake(given: list[Any]) -> list[Any]:
            asked = said, described(given)
            if asked not in known:
                numbered = iter(given)
                filled = pytree.tree_map(lambda leaf: next(numbered) if isinstance(leaf, torch.Tensor) else leaf, call)

                def gives(other_mode: bool) -> tuple[Any, list[torch.Tensor]]:
                    tree, outputs, _ = emptied(shapes_of(module, forward, hooks, *filled, other_mode=other_mode))
                    return tree, [output.clone() for output in outputs]

                with notes.within_layer():
                    tree, outputs = notes.reads.of_layer(gives, lambda made: (repr(made[0]), described(made[1])))
                known[asked] = tree, list(map(form_of, outputs))
            noted.results, forms = known[asked]
            return list(map(of_form, forms))

        call = (args, kwargs)
        # Layers that are alike give the same on the same; without that, torch.export and what follows on it still ask
        # three times of one.
        alike = description(module) if not hooks else None
        said = key if alike is None else (alike, repr((arguments, keywords)))
        known = notes.shapes
        notes.calls[key] = noted
        outputs = markers.layer(key, fake, tensors, sizes)
        if any(True for _ in module.buffers()):
            # It stays in the graph where nobody reads what it gives: a BatchNorm counts its batches.
            notes.marks += outputs[:1]
        results = _refilled(noted.results, outputs)
        return results if packed is None else given_by_layer(module, results, packed)

    return kept


def _refilled(tree: Any, tensors: list[Any]) -> Any:
    return pytree.tree_map(lambda leaf: tensors[leaf.number] if isinstance(leaf, TensorSlot) else leaf, tree)
