"""Initializer arguments for a layer that is kept whole: none where it starts as torch's own layers do."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from port.mapping import TORCH_ONLY, Entry, between
from port.moves import Permute
from port.pairs.registry import resolve
from port.pairs.twin import build_twin, twin_pair
from port.parity.sides.copies import copied
from port.translation.structure.init_inference.constructions import Start, merged, seen_starts, unsaid
from port.translation.structure.init_inference.repeated import varying
from port.translation.structure.init_inference.stories import Fixed, Foreign, Unsaid, alike, is_matrix
from port.translation.structure.init_inference.watching import Watch


def layer_starts(layer: Any, own: dict[str, Start]) -> dict[str, tuple[str, Start]]:
    """Variables of a layer's twin that deviate from its default start → torch's name, and their initialisation.

    Args:
        layer: the torch layer.
        own: names of its parameters and buffers → their initialisations.
    """
    usual = _usual(layer)
    other = {name for name, start in own.items() if not _is_usual(start, usual.get(name))}
    found: dict[str, tuple[str, Start]] = {}
    if not other:
        return found
    for entry in entries_of(layer):
        if entry.collection == TORCH_ONLY or not other & set(entry.sources) or not set(entry.sources) <= set(own):
            continue
        for target, start in _moved(entry, [own[name] for name in entry.sources]):
            found[target] = (entry.sources[0], start)
    return found


def entries_of(layer: Any) -> tuple[Entry, ...]:
    """The mapping from a layer's tensors to its twin's."""
    from torch.nn.utils.parametrize import is_parametrized

    if next(layer.children(), None) is None or is_parametrized(layer):
        return between(torch=layer).entries
    from flax import nnx

    return between(torch=layer, flax=nnx.eval_shape(lambda: build_twin(layer, rngs=nnx.Rngs(0)))).entries


def initializer_argument(layer: Any, variable: str) -> str | None:
    """The argument of a twin that initialises a variable; None where there is none."""
    made = resolve(twin_pair(layer).flax)
    argument = f"{variable}_init"
    taken = inspect.signature(made.__init__).parameters if isinstance(made, type) else {}  # type: ignore[misc]
    return argument if argument in taken else None


def _moved(entry: Entry, starts: list[Start]) -> Iterator[tuple[str, Start]]:
    """Yield the targets of a mapping entry, each with its initialisation."""
    first = starts[0]
    one_story = all(start.only is not None and alike(start.only, first.stories[0]) for start in starts)
    if one_story and not _needs_places(first):
        shapes = entry(tuple(np.zeros(start.labels.shape, bool) for start in starts))
        for target, shape in zip(entry.targets, shapes, strict=True):
            zeros = np.broadcast_to(np.int32(0), shape.shape)
            yield target, Start(first.stories, zeros, zeros)
        return
    if len(starts) == 1 and all(isinstance(move, Permute) for move in entry.moves):
        # Views: the labels of a large table, the same along each row, take no memory.
        arrays = (first.labels, first.values, _rows(first.labels.shape))
        labels, values, rows = (entry((array,))[0] for array in arrays)
        yield entry.targets[0], Start(*merged([*first.stories], labels), values, (), _axis_of(rows))
        return
    sizes = [start.labels.size for start in starts]
    begins = np.cumsum([0, *sizes])
    whole = [
        np.arange(begin, begin + start.labels.size).reshape(start.labels.shape)
        for begin, start in zip(begins, starts, strict=False)
    ]
    stories = [story for start in starts for story in start.stories]
    offsets = np.cumsum([0, *(len(start.stories) for start in starts)])
    offset_starts = zip(starts, offsets, strict=False)
    labels = np.concatenate([start.labels.ravel() + offset for start, offset in offset_starts])
    values = np.concatenate([start.values.ravel() for start in starts])
    rows = np.concatenate([_rows(start.labels.shape).ravel() for start in starts])
    for target, place in zip(entry.targets, entry(tuple(whole)), strict=True):
        if not _are_distinct(place, begins[-1]):
            yield target, unsaid("the written layer keeps it in another form", place.shape)
            continue
        kept, own = merged(stories, labels[place])
        is_whole = place.size == sizes[0] == begins[-1]
        yield target, Start(kept, own, values[place], (), _axis_of(rows[place]) if is_whole else None)


def _are_distinct(places: np.ndarray, count: int) -> bool:
    """Whether places are distinct whole numbers below a count. Nothing is sorted, as there may be many."""
    if places.dtype.kind not in "iu" or places.min(initial=0) < 0 or places.max(initial=0) >= count:
        return False
    seen = np.zeros(count, bool)
    seen[places] = True
    return int(np.count_nonzero(seen)) == places.size


def _needs_places(start: Start) -> bool:
    return isinstance(start.only, Fixed) or is_matrix(start.stories[0])


def _rows(shape: tuple[int, ...]) -> np.ndarray:
    """The row number of each element of a matrix (first axis, all others): a view of the numbers."""
    column = (*shape[:1], *(1 for _ in shape[1:]))
    return np.broadcast_to(np.arange(math.prod(column)).reshape(column), shape)


def _axis_of(rows: np.ndarray) -> int | None:
    """The single axis along which row numbers change; None if there are several."""
    rows = varying(rows)
    axes = [axis for axis in range(rows.ndim) if rows.shape[axis] > 1 and np.diff(rows, axis=axis).any()]
    return axes[0] if len(axes) == 1 else None


def _is_usual(start: Start, usual: Start | None) -> bool:
    """Whether a parameter starts as in torch's own layer.

    What torch computes from its own weight (a norm's magnitude), the twin computes from its own.
    """
    if usual is None:
        return all(not isinstance(story, Unsaid) or story.why.startswith("torch's ") for story in start.stories)
    if start.only is not None and usual.only is not None:
        return alike(start.only, usual.only)
    if start.labels.shape != usual.labels.shape:
        return False
    pairs = np.unique(varying(start.labels) * len(usual.stories) + varying(usual.labels))
    return all(
        alike(start.stories[code // len(usual.stories)], usual.stories[code % len(usual.stories)]) for code in pairs
    )


_known: dict[str, dict[str, Start]] = {}


def _usual(layer: Any) -> dict[str, Start]:
    """How the parameters and buffers of a layer built by torch alone are initialised."""
    key = f"{type(layer).__module__}.{type(layer).__qualname__} {layer!r} {_shapes(layer)}"
    if key not in _known:
        _known[key] = _drawn_again(layer)
    return _known[key]


def _shapes(layer: Any) -> str:
    return str([(name, tuple(tensor.shape)) for name, tensor in layer.state_dict().items() if hasattr(tensor, "shape")])


def _drawn_again(layer: Any) -> dict[str, Start]:
    """Draw a copy's parameters again with torch's own classes, as their constructors do."""
    import torch

    if any(type(tensor).__name__.startswith("Uninitialized") for tensor in layer.parameters()):
        return {}
    made = copied(layer).to("meta")
    with Watch().watching() as watch, torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in reversed(list(made.modules())):
            reset = _reset_of(type(module))
            if reset is not None and hasattr(module, "_parameters"):
                _draw_anew(module, reset)
        starts = seen_starts(watch, made)
    return {name: start for name, start in starts.items() if not _is_untouched(start)}


def _draw_anew(module: Any, reset: Callable[[Any], object]) -> None:
    """Draw a module's parameters with torch's own method, restoring parameters that were removed from the module.

    ``norm.register_parameter("weight", None)`` removes a BatchNorm's weight, but torch's method fills weight and bias.
    """
    from torch.nn import Parameter

    try:
        reset(module)
    except AttributeError:
        like = next((one for one in module._parameters.values() if one is not None), None)
        missing = [name for name, one in module._parameters.items() if one is None]
        if like is None or not missing:
            raise
        for name in missing:
            module._parameters[name] = Parameter(like.new_empty(like.shape))
        reset(module)


def _reset_of(cls: type) -> Any:
    """The method with which the torch class among a class's bases draws its parameters."""
    for base in cls.__mro__:
        if base.__module__.startswith("torch.nn."):
            for name in ("reset_parameters", "_reset_parameters"):
                if name in vars(base):
                    return vars(base)[name]
    return None


def _is_untouched(start: Start) -> bool:
    return any(isinstance(story, Foreign) for story in start.stories)
