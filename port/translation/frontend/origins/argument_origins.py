"""Record the origins of numeric arguments of operators and modules, while they are called."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path as FilePath
from types import FrameType
from typing import Any

import torch
from torch.fx.proxy import TracerBase

from port.translation.frontend.origins.arithmetic import is_number
from port.translation.frontend.origins.composite_numbers import NotedOperation
from port.translation.frontend.origins.enclosing_loops import enclosing_loop_counts
from port.translation.frontend.origins.number_origins import NumberOrigins
from port.translation.frontend.origins.operator_arguments import name_of, operator_arguments
from port.translation.frontend.origins.resolved import Resolved
from port.translation.frontend.source_locations import is_users
from port.translation.ir.number import KnownNumber, Numbers, Path, each_number, is_same
from port.translation.ir.origin import DefaultOf

_MARK = re.compile(r'File "<numbers>", line (\d+), in numbers')
_LINE = re.compile(r'File "([^<"][^"]*)", line (\d+), in')
_SCATTERED = {"slice_scatter": "slice", "select_scatter": "select"}
"""Operators that write into a view → the operator that makes the view."""
_TORCH = FilePath(torch.__file__).parent
_WRITTEN = ("nn", "functional.py", "_tensor.py")
"""Parts of torch whose Python code calls operators, as user code does."""


class ArgumentOrigins:
    """The origins of the numbers of one capture.

    Args:
        root: the captured module.
    """

    def __init__(self, root: torch.nn.Module) -> None:
        self._origins = NumberOrigins(root)
        self._noted: list[NotedOperation] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record the numbers of every operator node that torch.fx creates, within the context.

        The record's number is stored in the node's stack trace, which survives when torch retraces the program.
        """
        before = TracerBase.create_node

        def create_node(tracer: Any, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
            node = before(tracer, kind, target, args, kwargs, *rest, **more)
            trace = node.meta.get("stack_trace") or ""
            if kind == "call_function" and isinstance(target, torch._ops.OpOverload) and not _MARK.search(trace):
                arguments = _by_schema(target, args, kwargs)
                numbers = self._of_operation(sys._getframe(1), target, arguments)
                if numbers:
                    node.meta["stack_trace"] = f'{trace}\n  File "<numbers>", line {len(self._noted)}, in numbers'
                    self._noted.append(NotedOperation(name_of(target), arguments, numbers, _line_of(trace)))
            return node

        TracerBase.create_node = create_node  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            TracerBase.create_node = before  # type: ignore[method-assign]

    def of_node(self, node: torch.fx.Node, arguments: Mapping[str, Any]) -> Numbers:
        """Return the origins of a node's numeric arguments, by the schema's names."""
        found = _MARK.search(_trace_of(node))
        if not isinstance(node.target, torch._ops.OpOverload):
            return {}
        operator, there = name_of(node.target), dict(each_number(dict(arguments)))
        made = None if found is None else self._noted[int(found[1])]
        if made is None or (made.operator != operator and made.is_view):
            made = self._original_view(node, operator, there) or made
        numbers = {} if made is None else made.of_part(_SCATTERED.get(operator, operator), arguments)
        return {path: number for path, number in numbers.items() if is_same(there.get(path), number.value)}

    def _original_view(self, node: torch.fx.Node, operator: str, there: Mapping[Path, Any]) -> NotedOperation | None:
        """Find the recorded view that a node recreates, or writes into; torch does so after a write to the view's base.

        The recorded view has the same numbers. It is on the same line if it is written into; otherwise it comes before
        its reader, whose stack trace the node has.

        Args:
            node: a node of the functional program.
            operator: the operator that it calls.
            there: its numeric arguments.
        """
        wanted, line = _SCATTERED.get(operator, operator), _line_of(_trace_of(node))
        has_mark = _MARK.search(_trace_of(node)) is not None
        marked = node
        while marked.op != "root" and _MARK.search(_trace_of(marked)) is None:
            marked = marked.next
        mark = _MARK.search(_trace_of(marked))
        known = self._noted if mark is None else self._noted[: int(mark[1])]
        alike = (each for each in reversed(known) if each.operator == wanted and each.is_view and each.has(there))
        if not has_mark or operator in _SCATTERED:
            alike = (each for each in alike if each.line == line)
        return next(alike, None)

    def of_layer(self, frame: FrameType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Numbers:
        """Return the origins of a layer's numeric arguments, and of the iteration counts of enclosing loops.

        Args:
            frame: the frame of the function that replaces ``forward``, which takes ``*args`` and ``**kwargs``.
            args: positional arguments; their positions are the keys.
            kwargs: keyword arguments.
        """
        return {**self._of_call(frame, {**dict(enumerate(args)), **kwargs}, ()), **self._of_rounds(frame)}

    def of_forward(
        self, frame: FrameType, names: Sequence[str], function: str, arguments: Mapping[str, Any]
    ) -> Numbers:
        """Return the origins of numeric arguments of ``forward``, and of the iteration counts of enclosing loops.

        Args:
            frame: the frame of the function that replaces ``forward``, which takes ``*args`` and ``**kwargs``.
            names: the names of its positional parameters.
            function: its qualified name; a number that the call does not pass is one of its defaults.
            arguments: all arguments by name, defaults included.
        """
        return {**self._of_call(frame, arguments, names, function), **self._of_rounds(frame)}

    def _of_rounds(self, frame: FrameType) -> Numbers:
        return self._safely(lambda: enclosing_loop_counts(frame, self._origins))

    def _of_call(
        self, frame: FrameType, arguments: Mapping[Any, Any], names: Sequence[str], function: str = ""
    ) -> Numbers:
        if not any(True for _ in each_number(dict(arguments))):
            return {}

        def found() -> Iterator[tuple[Path, KnownNumber]]:
            passed = self._origins.parameters.of(frame)
            if "args" not in passed or "kwargs" not in passed:
                return
            positional, named = passed["args"]().each_item() or (), passed["kwargs"]().each_named() or {}
            keys: Sequence[Any] = names if function else range(len(positional))
            known = {**dict(zip(keys, positional, strict=False)), **named}
            for name, value in arguments.items():
                if name in known:
                    yield from numbers_in(value, known[name], (name,))
                elif function and is_number(value):
                    yield (name,), KnownNumber(value, DefaultOf(function, name))

        return self._safely(lambda: dict(found()))

    def _of_operation(self, frame: FrameType, target: Any, arguments: Mapping[str, Any]) -> dict[Path, KnownNumber]:
        caller = _caller(frame)
        if caller is None or not any(True for _ in each_number(dict(arguments))):
            return {}

        def found() -> Iterator[tuple[Path, KnownNumber]]:
            point = self._origins.files.point(caller)
            known = {} if point is None else operator_arguments(point, target, arguments, self._origins.resolve)
            for name, each in known.items():
                yield from numbers_in(arguments.get(name), each, (name,))

        return self._safely(lambda: dict(found()))

    def _safely(self, find: Callable[[], dict[Path, KnownNumber]]) -> dict[Path, KnownNumber]:
        """Run a search, and return nothing if it fails: a number without an origin can still be translated."""
        try:
            with torch._C.DisableTorchFunction():  # reading a tensor's shape must not add a node to the graph
                found = find()
                if self._origins.has_given_up:
                    self._origins.forget()
                    self._origins.remembers = True
                    found = {**find(), **found}
                return found
        except Exception:
            return {}
        finally:
            self._origins.remembers = False
            self._origins.forget()


def _trace_of(node: torch.fx.Node) -> str:
    return node.meta.get("stack_trace") or ""


def _line_of(trace: str) -> tuple[str, str]:
    """Return the innermost user line in a stack trace: the file, and the line number as text."""
    return next((line for line in reversed(_LINE.findall(trace)) if is_users(line[0])), ("", ""))


def numbers_in(value: Any, found: Resolved, path: Path) -> Iterator[tuple[Path, KnownNumber]]:
    """Yield the numbers in an argument with their origins, where the resolved expression has the same value."""
    if is_number(value):
        if found.origin is not None and is_same(found.value, value):
            yield path, KnownNumber(value, found.origin)
    elif isinstance(value, tuple | list):
        items = found.each_item()
        if items is None and is_number(found.value):
            items = (found,) * len(value)  # one number for each axis
        if items is not None and len(items) == len(value):
            for place, (item, known) in enumerate(zip(value, items, strict=True)):
                yield from numbers_in(item, known, (*path, place))
        elif items is None and len(value) >= len(found.last):
            for place, known in enumerate(found.last, start=len(value) - len(found.last)):
                yield from numbers_in(value[place], known, (*path, place))


def _by_schema(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    positional = dict(zip((argument.name for argument in target._schema.arguments), args, strict=False))
    defaults = {each.name: each.default_value for each in target._schema.arguments if each.has_default_value()}
    return {**defaults, **positional, **kwargs}


def _caller(frame: FrameType) -> FrameType | None:
    """Return the innermost frame of code that calls operators: the user's, or torch's own Python code."""
    here: FrameType | None = frame
    while here is not None and not _calls_operators(here.f_code.co_filename):
        here = here.f_back
    return here


@cache
def _calls_operators(file: str) -> bool:
    if is_users(file):
        return True
    path = FilePath(file)
    return path.is_relative_to(_TORCH) and path.relative_to(_TORCH).parts[0] in _WRITTEN
