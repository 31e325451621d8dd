"""What capture gives: the run of a torch module as a list of steps, as plain data."""

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
"""A length: a number, or the symbol of one that the inputs decide (``"s0"``)."""


@dataclass(frozen=True, eq=False)
class Value:
    """Something that a step makes and others take: a tensor, or a size.

    Attributes:
        name: of its own in the graph.
        shape: of a tensor, with its symbols; None for a size, which is a number.
        dtype: torch's name of it (``"float32"``); ``"size"`` for a size.
        length: of a size: the number, or the formula of the symbols.
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

    ``detached`` says that it stood within ``torch.no_grad()``; so of layers. ``numbers`` has the origins of the numbers
    among the arguments; they are of no account to whether two steps are equal.
    """

    operator: str
    arguments: dict[str, Any]
    results: tuple[Value, ...]
    several: bool
    place: SourceLocation | None
    detached: bool = False
    numbers: Numbers = field(default_factory=dict, compare=False, repr=False)


UNREAD_DRAW = "port.unread_draw"
"""The operator of a step without arguments and results: the original draws numbers here that nothing reads."""


@dataclass(frozen=True)
class LayerCall:
    """A call of a layer that a pair speaks of, kept whole."""

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
    """What each round of a loop takes from the round before.

    Attributes:
        first: what the first round takes.
        inside: what it is within a round.
        next: what a round hands on.
        last: what is left behind the last round.
    """

    first: Value
    inside: Value
    next: Value
    last: Value


@dataclass(frozen=True)
class Sliced:
    """A tensor of which each round takes the next slice along an axis; that axis is as long as the loop."""

    whole: Value
    axis: int
    inside: Value


@dataclass(frozen=True)
class Stacked:
    """What all rounds give, along a new axis of one tensor."""

    inside: Value
    axis: int
    whole: Value


@dataclass(frozen=True)
class Loop:
    """Steps that are carried out again and again.

    Attributes:
        length: how many rounds there are.
        reverse: whether the rounds go through the slices, and what is stacked, from the end.
        stateful: whether a round changes the module: its running statistics, or how often it has drawn random numbers.
        steps: of one round.
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
        """The values that it takes as a whole; its steps may read others."""
        return (*(each.first for each in self.carried), *(each.whole for each in self.sliced))

    @property
    def results(self) -> tuple[Value, ...]:
        return (*(each.last for each in self.carried), *(each.whole for each in self.stacked))


Step = Operation | LayerCall | ScopeEnter | ScopeExit | FunctionEnter | FunctionExit | Loop
MARKS = (ScopeEnter, ScopeExit, FunctionEnter, FunctionExit)  # they make nothing: calls begin and end there
S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Graph:
    """A run in one mode. It is never changed: a pass gives another.

    Attributes:
        inputs: the tensors given, in the order of the flattened arguments.
        held: parameters and buffers → their names in the module.
        constants: tensors that the code made of plain numbers.
        steps: in the order of the run; the first enters the module, the last leaves it.
        written: buffers and parameters that the run writes to → the values written.
        own_gradients: the ``torch.autograd.Function``s whose gradient the steps do not have: ``Name (file:line)``.
        guards: conditions on the inputs' lengths under which these are the steps.
        unguarded: lengths of which no guard speaks: those that torch.export fixed, found again from several captures.
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
    """The values in a tree of tuples, lists and dicts, from left to right."""
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
    """The tree with each value replaced."""
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
    """Every value that a step makes."""
    for step in each_step(graph.steps):
        if not isinstance(step, MARKS):
            yield from each_value(step.results)


def each_step(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, a loop's before the loop itself."""
    for step in steps:
        if isinstance(step, Loop):
            yield from each_step(step.steps)
        yield step


def numbers_of(step: Step) -> Iterator[tuple[Path, int | float | bool, Origin | None]]:
    """The numbers among a step's arguments: the way to each, itself, and its origin if that is known."""
    if isinstance(step, Operation | LayerCall | ScopeEnter | FunctionEnter):
        for path, value in each_number(arguments_of(step)):
            yield path, value, origin_at(step.numbers, path, value)


def with_known_origins(step: S) -> S:
    """A step whose numbers remember their origins, through all that rules work out of them."""
    match step:
        case Operation() | ScopeEnter() | FunctionEnter():
            return replace(step, arguments=with_origins(step.arguments, step.numbers))
        case LayerCall():
            arguments = tuple(with_origins(item, step.numbers, (place,)) for place, item in enumerate(step.arguments))
            return replace(step, arguments=arguments, keywords=with_origins(step.keywords, step.numbers))
    return step


def arguments_of(step: Operation | LayerCall | ScopeEnter | FunctionEnter) -> dict[Any, Any]:
    """What a step was given, by names; a layer's positional arguments by their numbers."""
    if isinstance(step, LayerCall):
        return {**dict(enumerate(step.arguments)), **step.keywords}
    return {**step.arguments}


def read_by(step: Step) -> Iterator[Value]:
    """The values that a step takes; those that a loop's steps take are not among them."""
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
    """The same step with others in the place of the values that it takes; a loop's own steps stay as they are."""
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
    raise TypeError(f"{type(step).__name__} is no step")
