"""Print graphs, one line per operation, like a jaxpr: ``port translate … --print-ir``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, Step, Value, each_value
from port.translation.ir.lowered import Assignment, LoweredGraph, LoweredStep, Scan
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import Numbers, Path, origin_at
from port.translation.ir.origin import LiteralAt, said
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.syntax import source

_INDENT = "  "
_COLUMN = 88
"""The column of source locations, unless a line is longer."""


def print_graph(graph: Graph) -> str:
    """Print a captured graph; numbers have their origins: ``64@self.head_dim``, or ``2@17:23`` for a literal.

    Args:
        graph: the graph of one mode.
    """
    lines = [f"inputs {', '.join(map(_typed, graph.inputs))}"]
    lines += [f"held {_typed(value)} = {name}" for value, name in graph.held.items()]
    lines += [f"constant {_typed(value)}" for value in graph.constants]
    lines += _steps(graph.steps)
    lines += [f"write {name} ← {value!r}" for name, value in graph.written.items()]
    lines += [f"guard {guard}" for guard in graph.guards]
    return "\n".join(lines)


def print_lowered(lowered: LoweredGraph) -> str:
    """Print a lowered graph: JAX expressions over arrays, with layouts other than torch's.

    Args:
        lowered: the lowered graph of one mode.
    """
    typed = [_typed(value, lowered) for value in lowered.graph.inputs]
    lines = [f"inputs {', '.join(typed)}"]
    lines += [f"held {_typed(value, lowered)} = {name}" for value, name in lowered.graph.held.items()]
    lines += _lowered_steps(lowered.steps, lowered)
    lines += [f"write {name} ← {source(value)}" for name, value in lowered.written.items()]
    lines += [f"unsupported {item.what}: {item.why}{_at(item.place)}" for item in lowered.unwritten]
    return "\n".join(lines)


def _steps(steps: Any, depth: int = 0, scopes: tuple[str, ...] = ("",)) -> Iterator[str]:
    for step in steps:
        if isinstance(step, ScopeExit | FunctionExit):
            depth, scopes = depth - 1, scopes[:-1]
        yield from _step(step, depth, scopes)
        if isinstance(step, ScopeEnter | FunctionEnter):
            depth, scopes = depth + 1, (*scopes, step.path if isinstance(step, ScopeEnter) else scopes[-1])


def _step(step: Step, depth: int, scopes: tuple[str, ...]) -> Iterator[str]:
    match step:
        case Operation():
            arguments = _named(step.arguments, _Origins(step.numbers, scopes[-1]))
            yield _line(depth, f"{_results(step.results)} = {step.operator}({arguments})", step.place)
        case LayerCall():
            origins = _Origins(step.numbers, scopes[-1])
            positional = [_shown(value, origins, (number,)) for number, value in enumerate(step.arguments)]
            arguments = ", ".join(filter(None, [*positional, _named(step.keywords, origins)]))
            name = f"{type(step.module).__name__} {step.path}"
            yield _line(depth, f"{_results(step.results)} = call {name}({arguments})", step.place)
        case ScopeEnter() | FunctionEnter():
            yield _enter(step, depth, scopes[-1])
        case ScopeExit():
            yield _line(depth, f"leave {step.key or 'the model'} → {_shown(step.results)}")
        case FunctionExit():
            yield _line(depth, f"leave {step.function.__qualname__} → {_shown(step.results)}")
        case Loop():
            direction = " reversed" if step.reverse else ""
            yield _line(depth, f"{_results(step.results)} = loop of {step.length}{direction}:", step.place)
            for carried in step.carried:
                yield _line(
                    depth + 1, f"carried {_typed(carried.inside)} from {carried.first!r}, then {carried.next!r}"
                )
            for sliced in step.sliced:
                yield _line(depth + 1, f"sliced {_typed(sliced.inside)} of {sliced.whole!r} along {sliced.axis}")
            yield from _steps(step.steps, depth + 1, scopes)
            for stacked in step.stacked:
                yield _line(depth + 1, f"stacked {stacked.inside!r} to {stacked.whole!r} along {stacked.axis}")


def _lowered_steps(steps: Any, lowered: LoweredGraph, depth: int = 0, scopes: tuple[str, ...] = ("",)) -> Iterator[str]:
    for step in steps:
        if isinstance(step, ScopeExit | FunctionExit):
            depth, scopes = depth - 1, scopes[:-1]
        yield from _lowered_step(step, lowered, depth, scopes)
        if isinstance(step, ScopeEnter | FunctionEnter):
            depth, scopes = depth + 1, (*scopes, step.path if isinstance(step, ScopeEnter) else scopes[-1])


def _lowered_step(step: LoweredStep, lowered: LoweredGraph, depth: int, scopes: tuple[str, ...]) -> Iterator[str]:
    match step:
        case Assignment():
            moved = "  (transpose)" if step.is_transpose else ""
            text = f"{_results(step.results, lowered)} = {source(step.expression)}{moved}"
            yield _line(depth, f"{text}{_numbers_in(step.expression, scopes[-1])}", step.place)
        case ScopeEnter() | FunctionEnter():
            yield _enter(step, depth)
        case ScopeExit():
            yield _line(depth, f"leave {step.key or 'the model'} → {_shown(step.results)}")
        case FunctionExit():
            yield _line(depth, f"leave {step.function.__qualname__} → {_shown(step.results)}")
        case Scan():
            length = "the arrays' length" if step.length is None else source(step.length)
            direction = " reversed" if step.reverse else ""
            made = _results((*step.last, *step.stacked), lowered)
            yield _line(depth, f"{made} = scan over {length}{direction}:", step.place)
            for value, first, following in zip(step.carried, step.first, step.next, strict=True):
                text = f"carried {_typed(value, lowered)} from {source(first)}, then {source(following)}"
                yield _line(depth + 1, text)
            for value, whole in zip(step.sliced, step.whole, strict=True):
                yield _line(depth + 1, f"sliced {_typed(value, lowered)} of {source(whole)}")
            yield from _lowered_steps(step.steps, lowered, depth + 1, scopes)
            for value, output in zip(step.stacked, step.outputs, strict=True):
                yield _line(depth + 1, f"stacked {source(output)} to {value!r}")


def _enter(step: ScopeEnter | FunctionEnter, depth: int, scope: str = "") -> str:
    arguments = _named(step.arguments, _Origins(step.numbers, scope))
    if isinstance(step, FunctionEnter):
        return _line(depth, f"enter {step.function.__qualname__} (function): {arguments}", step.place)
    name = type(step.module).__name__
    call = f", call {step.call + 1}" if step.call else ""
    return _line(depth, f"enter {step.key or 'the model'} ({name}{call}): {arguments}", step.place)


def _results(results: Any, lowered: LoweredGraph | None = None) -> str:
    return ", ".join(_typed(value, lowered) for value in each_value(results)) or "nothing"


def _typed(value: Value, lowered: LoweredGraph | None = None) -> str:
    if value.shape is None:
        return f"{value!r}: size {value.length}"
    layout = None if lowered is None else lowered.layouts.get(value)
    order = "" if layout is None or layout.is_torchs else f" as {layout}"
    return f"{value!r}: {value.dtype}[{', '.join(map(str, value.shape))}]{order}"


@dataclass(frozen=True)
class _Origins:
    """The origins of a step's numbers, relative to the module whose code has the step."""

    numbers: Numbers = field(default_factory=dict)
    scope: str = ""

    def of(self, path: Path, value: Any) -> str:
        origin = origin_at(self.numbers, path, value)
        if origin is None:
            return ""
        text = said(origin, self.scope)
        return f"@({text})" if " " in text else f"@{text}"


_NONE = _Origins()


def _named(arguments: dict[str, Any], origins: _Origins = _NONE, path: Path = ()) -> str:
    return ", ".join(f"{name}={_shown(value, origins, (*path, name))}" for name, value in arguments.items())


def _shown(value: Any, origins: _Origins = _NONE, path: Path = ()) -> str:
    match value:
        case syntax.Expr():
            return source(value)
        case tuple() | list():
            inner = ", ".join(_shown(item, origins, (*path, number)) for number, item in enumerate(value))
            return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
        case dict():
            return f"{{{_named(value, origins, path)}}}"
        case _:
            return f"{value!r}{origins.of(path, value)}"


def _numbers_in(expression: syntax.Expr, scope: str) -> str:
    """Return the origins of an expression's numbers, except literals."""
    known = {
        node.value: said(node.origin, scope)
        for node in syntax.walk(expression)
        if isinstance(node, syntax.Const) and node.origin is not None and not isinstance(node.origin, LiteralAt)
    }
    return f"  [{', '.join(f'{value} = {text}' for value, text in known.items())}]" if known else ""


def _line(depth: int, text: str, place: SourceLocation | None = None) -> str:
    line = f"{_INDENT * depth}{text}"
    return line if place is None else f"{line.ljust(_COLUMN)}{_at(place)}"


def _at(place: SourceLocation | None) -> str:
    if place is None:
        return ""
    file = FilePath(place.file)
    shown = file.relative_to(FilePath.cwd()) if file.is_relative_to(FilePath.cwd()) else file
    return f"  # {shown}:{place.line}"
