"""The captured graph: one run of a torch module as a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import Numbers, Path, each_number, origin_at, with_origins
from port.translation.ir.origin import Origin
from port.translation.ir.source_location import SourceLocation

Size = int | str
"""A length: a number, or a symbolic dimension's formula (``"s0"``)."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor, or a size: the result of a step, read by others.

    Attributes:
        name: unique in the graph.
        shape: a tensor's shape, with symbols; None for a size, which is a number.
        dtype: torch's name (``"float32"``); ``"size"`` for a size.
        length: a size's number, or its formula.
    """

    name: str
    shape: tuple[Size, ...] | None
    dtype: str
    length: Size = 0

    @property
    def rank(self) -> int:
        return 0 if self.shape is None else len(self.shape)

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True)
class Operation:
    """An operator: its overload (``"aten.cat.default"``), its arguments by the schema's names, its results.

    ``detached`` is whether it ran under ``torch.no_grad()``. ``numbers`` has the origins of the numbers among the
    arguments; they do not take part in comparisons of steps.
    """

    operator: str
    arguments: dict[str, Any]
    results: tuple[Value, ...]
    several: bool
    place: SourceLocation | None
    detached: bool = False
    numbers: Numbers = field(default_factory=dict, compare=False, repr=False)


UNREAD_DRAW = "port.unread_draw"
"""The operator, without arguments and results, that marks a random draw of the original that nothing reads."""


@dataclass(frozen=True)
class LayerCall:
    """A call of a leaf layer: a layer that a pair covers, kept whole."""

    path: str
    module: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    results: Any
    place: SourceLocation | None
    detached: bool = False
    numbers: Numbers = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Carried:
    """A loop's carry.

    Attributes:
        first: its initial value.
        inside: its value inside an iteration.
        next: the value that an iteration passes on.
        last: its final value.
    """

    first: Value
    inside: Value
    next: Value
    last: Value


@dataclass(frozen=True)
class Sliced:
    """A tensor that the loop slices along an axis, one slice per iteration."""

    whole: Value
    axis: int
    inside: Value


@dataclass(frozen=True)
class Stacked:
    """The outputs of all iterations, stacked along a new axis."""

    inside: Value
    axis: int
    whole: Value


@dataclass(frozen=True)
class Loop:
    """A loop.

    Attributes:
        length: the number of iterations.
        reverse: whether the loop goes through its slices and stacked outputs from the end.
        stateful: whether an iteration changes the module: its running statistics, or its random state.
        carried: the carries.
        sliced: the tensors that it slices.
        stacked: its stacked outputs.
        steps: the steps of one iteration.
        place: the loop's location.
    """

    length: Size
    reverse: bool
    stateful: bool
    carried: tuple[Carried, ...]
    sliced: tuple[Sliced, ...]
    stacked: tuple[Stacked, ...]
    steps: tuple[Step, ...]
    place: SourceLocation | None

    @property
    def taken(self) -> tuple[Value, ...]:
        """The initial carries and the sliced tensors; the loop's steps may read other values too."""
        return (*(each.first for each in self.carried), *(each.whole for each in self.sliced))

    @property
    def results(self) -> tuple[Value, ...]:
        return (*(each.last for each in self.carried), *(each.whole for each in self.stacked))


Step = Operation | LayerCall | ScopeEnter | ScopeExit | FunctionEnter | FunctionExit | Loop
MARKS = (
    ScopeEnter,
    ScopeExit,
    FunctionEnter,
    FunctionExit,
)  # they compute nothing: they mark where calls begin and end
S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Graph:
    """A run in one mode. It is immutable: a pass returns a new graph.

    Attributes:
        inputs: the input tensors, in the order of the flattened arguments.
        held: parameters and buffers → their names in the module.
        constants: tensors that the code built from plain numbers → their values.
        steps: in the order of the run; the first enters the module, the last leaves it.
        written: names of buffers and parameters that the run writes to → the values written.
        own_gradients: the ``torch.autograd.Function``s whose gradient the steps lack: ``Name (file:line)``.
        guards: conditions on the inputs' lengths under which the graph is valid.
        unguarded: lengths without guards: torch.export fixed them, and comparing several captures freed them again.
    """

    inputs: tuple[Value, ...]
    held: Mapping[Value, str]
    constants: Mapping[Value, Any]
    steps: tuple[Step, ...]
    written: Mapping[str, Value] = field(default_factory=dict)
    own_gradients: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()


def each_value(tree: Any) -> Iterator[Value]:
    """Yield the values in a tree of tuples, lists and dicts, from left to right."""
    match tree:
        case Value():
            yield tree
        case tuple() | list():
            for item in tree:
                yield from each_value(item)
        case dict():
            for item in tree.values():
                yield from each_value(item)
        case slice():
            yield from each_value((tree.start, tree.stop, tree.step))


def mapped(tree: Any, function: Callable[[Value], Any]) -> Any:
    """Replace each value in a tree."""
    match tree:
        case Value():
            return function(tree)
        case tuple() if hasattr(tree, "_fields"):
            return type(tree)(*(mapped(item, function) for item in tree))
        case tuple() | list():
            return type(tree)(mapped(item, function) for item in tree)
        case dict():
            made = ((key, mapped(item, function)) for key, item in tree.items())
            return type(tree)(made) if type(tree) is not dict else dict(made)
        case slice():
            return slice(*mapped((tree.start, tree.stop, tree.step), function))
        case _:
            return tree


def values_of(graph: Graph) -> Iterator[Value]:
    """Yield every step's results."""
    for step in each_step(graph.steps):
        if not isinstance(step, MARKS):
            yield from each_value(step.results)


def each_step(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield all steps; a loop's steps come before the loop itself."""
    for step in steps:
        if isinstance(step, Loop):
            yield from each_step(step.steps)
        yield step


def numbers_of(step: Step) -> Iterator[tuple[Path, int | float | bool, Origin | None]]:
    """Yield the numbers among a step's arguments: each one's path, value, and origin if known."""
    if isinstance(step, Operation | LayerCall | ScopeEnter | FunctionEnter):
        for path, value in each_number(arguments_of(step)):
            yield path, value, origin_at(step.numbers, path, value)


def with_known_origins(step: S) -> S:
    """Attach origins to the numbers in a step's arguments, so that numbers computed from them have origins too."""
    match step:
        case Operation() | ScopeEnter() | FunctionEnter():
            return replace(step, arguments=with_origins(step.arguments, step.numbers))
        case LayerCall():
            arguments = tuple(with_origins(item, step.numbers, (place,)) for place, item in enumerate(step.arguments))
            return replace(step, arguments=arguments, keywords=with_origins(step.keywords, step.numbers))
    return step


def arguments_of(step: Operation | LayerCall | ScopeEnter | FunctionEnter) -> dict[Any, Any]:
    """Return a step's arguments by name; a layer's positional arguments by number."""
    if isinstance(step, LayerCall):
        return {**dict(enumerate(step.arguments)), **step.keywords}
    return {**step.arguments}


def read_by(step: Step) -> Iterator[Value]:
    """Yield the values that a step reads, without those that a loop's steps read."""
    match step:
        case Operation() | ScopeEnter() | FunctionEnter():
            yield from each_value(step.arguments)
        case LayerCall():
            yield from each_value((step.arguments, step.keywords))
        case ScopeExit() | FunctionExit():
            yield from each_value(step.results)
        case Loop():
            yield from step.taken
            yield from (*(each.next for each in step.carried), *(each.inside for each in step.stacked))


def reading(step: S, instead: Callable[[Value], Any]) -> S:
    """Replace the values that a step reads; a loop's steps stay unchanged."""
    match step:
        case Operation() | ScopeEnter() | FunctionEnter():
            return replace(step, arguments=mapped(step.arguments, instead))
        case LayerCall():
            arguments, keywords = mapped((step.arguments, step.keywords), instead)
            return replace(step, arguments=arguments, keywords=keywords)
        case ScopeExit() | FunctionExit():
            return replace(step, results=mapped(step.results, instead))
        case Loop():
            return replace(
                step,
                carried=tuple(
                    replace(each, first=instead(each.first), next=instead(each.next)) for each in step.carried
                ),
                sliced=tuple(replace(each, whole=instead(each.whole)) for each in step.sliced),
                stacked=tuple(replace(each, inside=instead(each.inside)) for each in step.stacked),
            )
    raise TypeError(f"{type(step).__name__} is not a step")
