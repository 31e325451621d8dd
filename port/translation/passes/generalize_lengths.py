"""Merge graphs captured at several lengths into one: numbers that differ become formulas of the lengths.

torch.export fixes a length that the code converts to a Python number (``F.avg_pool2d(x, x.shape[3])``). Captures at
three lengths give three graphs that differ only in numbers, from which the formulas are inferred.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Carried, Graph, LayerCall, Loop, Operation, Size, Sliced, Stacked, Step, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import KnownNumber, Path, agreed
from port.translation.passes.dissolve_functions import without_functions

_STRIDES = (1, 2, 4, 8, 16, 32, 64, 3, 5, 6, 7, 9, 10, 12, 14, 20, 24, 28)
"""The divisors that are tried, in this order: those of strides and windows."""


def generalised(graphs: Sequence[Graph], names: dict[str, tuple[int, ...]]) -> Graph | None:
    """Return the common graph; None if the graphs differ in more than numbers that follow from the lengths.

    Args:
        graphs: graphs of one module in one mode, captured at different lengths.
        names: name of a length → its values, one per graph.
    """
    for several in (graphs, list(map(without_functions, graphs))):
        try:
            return _Generalising(several, names).graph()
        except _Different:
            continue
    return None


class _Different(Exception):
    pass


class _Generalising:
    def __init__(self, graphs: Sequence[Graph], names: dict[str, tuple[int, ...]]) -> None:
        self.graphs = graphs
        self.formulas: dict[tuple[int, ...], str] = {numbers: name for name, numbers in names.items()}
        self.lengths = dict(names)
        self.values: dict[tuple[str, ...], Value] = {}
        self.steps: list[Step] = []

    def graph(self) -> Graph:
        first = self.graphs[0]
        inputs = tuple(self._value(several) for several in self._zipped([graph.inputs for graph in self.graphs]))
        held = {
            self._value(several): name
            for several, name in zip(
                self._keys([graph.held for graph in self.graphs]), first.held.values(), strict=True
            )
        }
        constants = {}
        for several in self._keys([graph.constants for graph in self.graphs]):
            tensors = [graph.constants[value] for graph, value in zip(self.graphs, several, strict=True)]
            if any(not _equal(tensor, tensors[0]) for tensor in tensors):
                raise _Different
            constants[self._value(several)] = tensors[0]
        for several in self._zipped([graph.steps for graph in self.graphs]):
            step = self._step(several)  # this appends the lengths that it reads, so they come first
            self.steps.append(step)
        if len({tuple(graph.written) for graph in self.graphs}) > 1:
            raise _Different
        written = {name: self._tree([graph.written[name] for graph in self.graphs]) for name in first.written}
        guards = tuple(dict.fromkeys(guard for graph in self.graphs for guard in graph.guards))
        return Graph(inputs, held, constants, tuple(self.steps), written, first.own_gradients, guards)

    # %% Steps

    def _step(self, several: tuple[Any, ...]) -> Step:
        first = several[0]
        if len({type(step) for step in several}) > 1:
            raise _Different
        match first:
            case Operation():
                self._alike(several, "operator", "several", "detached")
                arguments = self._tree([step.arguments for step in several])
                results = self._made([step.results for step in several])
                return replace(first, arguments=arguments, results=results, numbers=_numbers(several))
            case LayerCall():
                self._alike(several, "path", "detached")
                arguments, keywords = self._tree([(step.arguments, step.keywords) for step in several])
                results = self._made([step.results for step in several])
                return replace(
                    first, arguments=arguments, keywords=keywords, results=results, numbers=_numbers(several)
                )
            case ScopeEnter():
                self._alike(several, "key")
                arguments = self._tree([step.arguments for step in several])
                return replace(first, arguments=arguments, numbers=_numbers(several))
            case FunctionEnter():
                self._alike(several, "function", "positional", "named")
                arguments = self._tree([step.arguments for step in several])
                return replace(first, arguments=arguments, numbers=_numbers(several))
            case ScopeExit() | FunctionExit():
                self._alike(several, "key" if isinstance(first, ScopeExit) else "function")
                return replace(first, results=self._tree([step.results for step in several]))
            case Loop():
                return self._loop(several)
        raise _Different

    def _loop(self, several: tuple[Loop, ...]) -> Loop:
        self._alike(several, "reverse", "stateful")
        first = self._tree([[each.first for each in loop.carried] for loop in several])
        whole = self._tree([[each.whole for each in loop.sliced] for loop in several])
        inside = self._made([_inside(loop) for loop in several])
        steps = tuple(self._step(steps) for steps in self._zipped([loop.steps for loop in several]))
        after = self._tree([[each.next for each in loop.carried] for loop in several])
        outputs = self._tree([[each.inside for each in loop.stacked] for loop in several])
        results = self._made([loop.results for loop in several])
        count = len(first)
        return replace(
            several[0],
            length=self._size([loop.length for loop in several]),
            carried=tuple(map(Carried, first, inside, after, results)),
            sliced=tuple(map(_sliced, several[0].sliced, whole, inside[count:])),
            stacked=tuple(map(_stacked, several[0].stacked, outputs, results[count:])),
            steps=steps,
        )

    def _alike(self, several: tuple[Any, ...], *attributes: str) -> None:
        if any(getattr(step, name) != getattr(several[0], name) for step in several for name in attributes):
            raise _Different

    def _made(self, trees: Sequence[Any]) -> Any:
        """Merge a step's results, which are new values."""
        match trees[0]:
            case Value():
                return self._value(tuple(trees))
            case tuple() | list():
                return type(trees[0])(self._made(parts) for parts in self._zipped(trees))
            case dict():
                return {key: self._made([tree[key] for tree in trees]) for key in trees[0]}
        return trees[0]

    # %% Values and numbers

    def _value(self, several: tuple[Value, ...]) -> Value:
        first = several[0]
        if len({(value.dtype, value.rank, value.shape is None) for value in several}) > 1:
            raise _Different
        shapes = [value.shape for value in several]
        shape = None if first.shape is None else tuple(self._size(sizes) for sizes in self._zipped(shapes))
        made = Value(first.name, shape, first.dtype, self._size([value.length for value in several]))
        return self.values.setdefault(tuple(value.name for value in several), made)

    def _tree(self, trees: Sequence[Any]) -> Any:
        match trees[0]:
            case Value():
                names = tuple(getattr(tree, "name", "") for tree in trees)
                if names not in self.values:
                    raise _Different
                return self.values[names]
            case tuple() if hasattr(trees[0], "_fields"):
                return type(trees[0])(*(self._tree(parts) for parts in self._zipped(trees)))
            case tuple() | list():
                return type(trees[0])(self._tree(parts) for parts in self._zipped(trees))
            case dict():
                if len({tuple(tree) for tree in trees}) > 1:
                    raise _Different
                return {key: self._tree([tree[key] for tree in trees]) for key in trees[0]}
            case slice():
                parts = [self._tree([getattr(tree, name) for tree in trees]) for name in ("start", "stop", "step")]
                return slice(*parts)
            case int() if not isinstance(trees[0], bool):
                return self._number(trees)
        if any(type(tree) is not type(trees[0]) or tree != trees[0] for tree in trees):
            raise _Different
        return trees[0]

    def _number(self, numbers: Sequence[Any]) -> Any:
        """Merge a number among an operator's arguments: the same in all graphs, or a length."""
        if any(type(number) is not int for number in numbers):
            raise _Different
        size = self._size(numbers)
        if isinstance(size, int):
            return size
        made = Value(f"length_{len(self.steps)}", None, "size", size)
        self.steps.append(Operation("sym_int", {}, (made,), several=False, place=None))
        return made

    def _size(self, sizes: Sequence[Size]) -> Size:
        if all(size == sizes[0] for size in sizes):
            return sizes[0]
        if all(isinstance(size, int) for size in sizes):
            return self._formula(tuple(map(int, sizes)))
        return self._of_symbols([str(size) for size in sizes])

    def _of_symbols(self, formulas: Sequence[str]) -> str:
        """Merge formulas of other symbolic lengths that differ only in their numbers."""
        parts = [re.split(r"(\d+)", re.sub(r"[A-Za-z_]\w*", lambda word: f"<{word[0]}>", text)) for text in formulas]
        made = ""
        for several in self._zipped(parts):
            if all(part.isdigit() for part in several):
                made += f"({self._size(list(map(int, several)))})" if len({*several}) > 1 else several[0]
            elif len({*several}) == 1:
                made += several[0]
            else:
                raise _Different
        return re.sub("[<>]", "", made)

    def _formula(self, numbers: tuple[int, ...]) -> str:
        """Find the formula for numbers: a shifted and divided length, as of a window, or a product of two formulas."""
        if numbers not in self.formulas:
            found = _divided(numbers, self.lengths) or self._product(numbers)
            if found is None:
                raise _Different
            self.formulas[numbers] = found
        return self.formulas[numbers]

    def _product(self, numbers: tuple[int, ...]) -> str | None:
        for known, formula in list(self.formulas.items()):
            if not all(part and number % part == 0 for number, part in zip(numbers, known, strict=True)):
                continue
            rest = tuple(number // part for number, part in zip(numbers, known, strict=True))
            if len({*rest}) == 1:
                return f"{rest[0]}*({formula})"
            other = self.formulas.get(rest) or _divided(rest, self.lengths)
            if other is not None:
                return f"({formula})*({other})"
        return None

    # %% Several at once

    @staticmethod
    def _zipped(trees: Sequence[Any]) -> list[tuple[Any, ...]]:
        if len({len(tree) for tree in trees}) > 1:
            raise _Different
        return list(zip(*trees, strict=True))

    def _keys(self, several: Sequence[Mapping[Any, Any]]) -> list[tuple[Any, ...]]:
        return self._zipped([list(items) for items in several])


def _divided(numbers: tuple[int, ...], lengths: dict[str, tuple[int, ...]]) -> str | None:
    """Find (length + shift) // stride, with the smallest shift and stride that fit all numbers."""
    for stride in _STRIDES:
        for name, sizes in lengths.items():
            # Each number allows a range of shifts; a shift in their intersection fits.
            lowest = max(number * stride - size for number, size in zip(numbers, sizes, strict=True))
            highest = min(number * stride - size + stride - 1 for number, size in zip(numbers, sizes, strict=True))
            if lowest > highest:
                continue
            shift = min(max(0, lowest), highest)
            shifted = name if not shift else f"{name} + {shift}" if shift > 0 else f"{name} - {-shift}"
            return shifted if stride == 1 else f"(({shifted})//{stride})"
    return None


def _numbers(several: Sequence[Any]) -> dict[Path, KnownNumber]:
    return agreed([step.numbers for step in several])


def _inside(loop: Loop) -> list[Value]:
    """Return the values that an iteration receives."""
    return [*(each.inside for each in loop.carried), *(each.inside for each in loop.sliced)]


def _sliced(sliced: Sliced, whole: Value, inside: Value) -> Sliced:
    return replace(sliced, whole=whole, inside=inside)


def _stacked(stacked: Stacked, inside: Value, whole: Value) -> Stacked:
    return replace(stacked, inside=inside, whole=whole)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and bool(torch.equal(one, other))
