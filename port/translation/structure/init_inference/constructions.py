"""Watch two constructions of a model, and derive how each of its tensors is initialised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from port.translation.frontend.python_random import reseeded
from port.translation.structure.init_inference.repeated import in_rows, varying
from port.translation.structure.init_inference.shadows import has_storage
from port.translation.structure.init_inference.stories import (
    Fixed,
    Foreign,
    Number,
    Story,
    Unsaid,
    alike,
    events,
    without_events,
)
from port.translation.structure.init_inference.watching import Watch, read_from

FEW = 16
"""Tables with at most this many numbers are written as literals."""
WITHOUT_NUMBERS = "its numbers are computed, and it is constructed without them (on the meta device)"
"""The reason for a parameter that was never filled as a whole."""


@dataclass(frozen=True)
class Start:
    """The initialisation of a tensor.

    Attributes:
        stories: the distinct stories of its elements.
        labels: each element's index into the stories; in the tensor's shape.
        values: the tensor's values in one construction.
        same: names of other tensors that it starts as a copy of.
        row_axis: the axis that is torch's first, along which the rows of a matrix lie; None if there is none.
    """

    stories: tuple[Story, ...]
    labels: np.ndarray
    values: np.ndarray
    same: tuple[str, ...] = ()
    row_axis: int | None = 0

    @property
    def only(self) -> Story | None:
        """The story of all elements, if they share one."""
        return self.stories[0] if len(self.stories) == 1 else None

    @property
    def is_fixed(self) -> bool:
        """Whether every construction yields the same numbers."""
        return all(isinstance(story, Fixed | Number) for story in self.stories)

    def transposed(self, order: tuple[int, ...]) -> Start:
        """The same initialisation with the axes in another order."""
        rows = None if self.row_axis is None or not order else order.index(self.row_axis)
        return replace(self, labels=self.labels.transpose(order), values=self.values.transpose(order), row_axis=rows)


def unsaid(why: str, shape: tuple[int, ...]) -> Start:
    """The initialisation of a tensor about which nothing is known."""
    return Start((Unsaid(why),), np.zeros(shape, np.int32), np.zeros(shape, np.float32))


def starts_of(construct: Callable[[], Any]) -> dict[str, Start]:
    """Find how parameters and buffers are initialised, by name.

    Args:
        construct: builds the model; called twice, under two different seeds.
    """
    made = []
    for seed in (1, 2):
        with reseeded(seed), Watch().watching() as watch:
            module = construct()
        made.append({name: _seen(watch, tensor) for name, tensor in _named(module)})
        del module, watch  # for a large table it holds one number per element
    one, other = made
    starts = {name: _start(seen, other.get(name)) for name, seen in one.items()}
    return _with_copies(starts, {name: seen.drawn for name, seen in one.items()})


def seen_starts(watch: Any, module: Any) -> dict[str, Start]:
    """The same from one construction, without looking at its numbers."""
    seen = {name: _seen(watch, tensor) for name, tensor in _named(module)}
    nothing: tuple[Story, ...] = (Number(0.0),)
    return {
        name: Start(tuple(one.stories) if one.values.size else nothing, one.labels, one.values)
        for name, one in seen.items()
    }


@dataclass(frozen=True)
class _Seen:
    """A tensor at the end of one construction; its values are 0 where it has none."""

    stories: list[Story]
    labels: np.ndarray
    values: np.ndarray
    is_parameter: bool
    files: tuple[str, ...]
    drawn: frozenset[int]
    has_values: bool = True


def _named(module: Any) -> Iterator[tuple[str, Any]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _seen(watch: Any, tensor: Any) -> _Seen:
    import torch

    is_parameter = isinstance(tensor, torch.nn.Parameter)
    if not has_storage(tensor):
        why = "it is made when the model is first called, or is an unusual kind of tensor"
        return _Seen([Unsaid(why)], np.zeros((), np.int64), np.zeros(()), is_parameter, (), frozenset())
    shadows = watch.shadows
    if not shadows.knows(tensor):
        shadows.read(tensor)  # it existed before
    read = shadows.read(tensor)
    if isinstance(read, int):
        stories, labels = [shadows.stories[read]], np.broadcast_to(np.int64(0), tensor.shape)
    else:
        found, labels = numbered(in_rows(np.asarray(read)))
        stories = [shadows.stories[label] for label in found]
    drawn = frozenset().union(*map(events, stories)) if stories else frozenset()
    values = _values(shadows.numbers(tensor), stories, labels, tensor)
    has_values = values is not None
    if values is None:
        values = np.broadcast_to(np.float32(0), tensor.shape)
    return _Seen(stories, labels, values, is_parameter, tuple(dict.fromkeys(watch.files)), drawn, has_values)


def _values(numbers: Any, stories: list[Story], labels: np.ndarray, tensor: Any) -> np.ndarray | None:
    """A tensor's numbers, or those that its stories determine; None where they are unknown."""
    if numbers is not None:
        return _numpy(numbers)
    if not all(isinstance(story, Number) for story in stories):
        return None
    import torch

    dtype = _numpy(torch.zeros((), dtype=tensor.dtype)).dtype
    said = np.array([story.value for story in stories if isinstance(story, Number)], dtype)
    return np.broadcast_to(said[0], tensor.shape) if len(said) == 1 else said[labels]


def _numpy(tensor: Any) -> np.ndarray:
    import torch

    array: np.ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()
    return array


def _start(one: _Seen, other: _Seen | None) -> Start:
    """Derive the initialisation that two constructions agree on."""
    if other is None or other.values.shape != one.values.shape:
        return unsaid("each construction has others of them", one.values.shape)
    if not one.values.size:
        return Start((Number(0.0),), np.zeros(one.values.shape, np.int32), one.values)
    if len(one.stories) == 1 and len(other.stories) == 1:
        stories = [_agreed(one, other, one.stories[0], other.stories[0], ...)]
        return Start(tuple(stories), np.broadcast_to(np.int32(0), one.values.shape), one.values)
    both = varying(one.labels) * len(other.stories) + varying(other.labels)
    codes, places = numbered(np.broadcast_to(both, one.labels.shape))
    pairs = [divmod(int(code), len(other.stories)) for code in codes]
    stories = [
        _agreed(one, other, one.stories[mine], other.stories[theirs], places == number)
        for number, (mine, theirs) in enumerate(pairs)
    ]
    distinct, labels = merged(stories, places)
    return Start(distinct, labels, one.values)


def numbered(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels in order, and each element's index among them.

    `numpy.unique` sorts all elements; for a large tensor with few distinct labels, counting is enough.

    Args:
        labels: whole numbers, none below 0, in any shape.
    """
    few = varying(labels)
    if few.max(initial=0) > few.size:
        found, places = np.unique(few, return_inverse=True)
        return found, np.broadcast_to(places.reshape(few.shape), labels.shape)
    found = np.flatnonzero(np.bincount(few.ravel()))
    places = np.zeros(few.max(initial=0) + 1, np.int32)
    places[found] = np.arange(len(found))
    return found, np.broadcast_to(places[few], labels.shape)


def merged(stories: list[Story], labels: np.ndarray) -> tuple[tuple[Story, ...], np.ndarray]:
    """Merge stories that are alike: the distinct ones that occur, and each element's index among them."""
    distinct: list[Story] = []
    numbers = np.zeros(len(stories), np.int32)
    few = varying(labels)
    for number in np.flatnonzero(np.bincount(few.ravel())):
        story = stories[number]
        known = next((n for n, before in enumerate(distinct) if alike(before, story)), None)
        if known is None:
            distinct.append(story)
        numbers[number] = len(distinct) - 1 if known is None else known
    return tuple(distinct), np.broadcast_to(numbers[few], labels.shape)


def _agreed(one: _Seen, other: _Seen, mine: Story, theirs: Story, where: Any) -> Story:
    """The story of some elements on which both constructions agree."""
    if isinstance(mine, Unsaid):
        return mine
    if not alike(_without_matrix(mine), _without_matrix(theirs)):
        return Unsaid("it is drawn in another way in each construction")
    if not isinstance(mine, Fixed | Foreign):
        return mine
    if not (one.has_values and other.has_values):
        return Unsaid((isinstance(mine, Foreign) and _untrusted(one, mine)) or WITHOUT_NUMBERS)
    values = one.values[where].ravel()
    if not np.array_equal(values, other.values[where].ravel(), equal_nan=values.dtype.kind in "fc"):
        return Unsaid("it is drawn by something else than torch")
    if isinstance(mine, Foreign) and (why := _untrusted(one, mine)):
        return Unsaid(why)
    if values.size and values.dtype.kind != "c" and (values == values[0]).all():
        return Number(shortest(values[0]))
    return Fixed()


def shortest(value: Any) -> Any:
    """Convert a numpy number to Python's; for single precision, the shortest float that rounds to it."""
    return float(str(value)) if value.dtype == np.float32 else value.item()


def _without_matrix(story: Story) -> Any:
    made = without_events(story)
    return (made.kind, made.numbers) if getattr(made, "kind", "") == "orthogonal" else made


def _untrusted(seen: _Seen, story: Foreign) -> str | None:
    """Why numbers from outside may be a checkpoint's; None for a table that the code itself contains."""
    read = read_from(seen.files)
    few = seen.values.size <= FEW
    if not story.from_code and ((seen.is_parameter and not few) or seen.files):
        return read or "its numbers were there before, as those of a checkpoint"
    if seen.is_parameter and seen.files and not few:
        return read
    return None


def _with_copies(starts: dict[str, Start], drawn: dict[str, frozenset[int]]) -> dict[str, Start]:
    """Record which tensors start as copies of another: drawn by the same event, and equal."""
    owners: dict[int, list[str]] = defaultdict(list)
    for name, numbers in drawn.items():
        for number in numbers:
            owners[number].append(name)
    for names in owners.values():
        first = starts[names[0]]
        for name in names[1:]:
            start = starts[name]
            if not np.shares_memory(start.values, first.values) and np.array_equal(start.values, first.values):
                starts[name] = Start(start.stories, start.labels, start.values, (names[0],))
    return starts
