"""Turn export errors into user-facing errors."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from torch.utils import _pytree as pytree

from port.errors import NoPair, PortError
from port.parity.sides.precision import default_dtype
from port.translation.frontend.export import Trace, copied_for_tracing, traced
from port.translation.frontend.free_lengths import FreeLength, several_sizes
from port.translation.frontend.long_formulas import LongLength
from port.translation.frontend.meta_device import is_on_meta, on_meta
from port.translation.frontend.precision import in_double, in_float64, is_all_double
from port.translation.frontend.quiet import quiet
from port.translation.frontend.resized_inputs import Axis, Sizes, resized, tensors_of
from port.translation.frontend.source_locations import is_users
from port.translation.frontend.stepped_lengths import looped_lengths, short_sizes
from port.translation.frontend.trials import Trials
from port.translation.ir.graph import Graph
from port.translation.ir.instrumentation import after
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.symbolic_lengths import names_of, shapes_of
from port.translation.passes.generalize_lengths import generalised
from port.translation.passes.reroll_loops import rolled_loops, with_same_loops

_DATA_DEPENDENT = ("DataDependent", "GuardOnData", "UserError", "Unbacked", "ConstraintViolation")


def both_modes(trials: Trials, *, free: Sequence[FreeLength] = ()) -> tuple[bool, dict[bool, Graph]]:
    """Capture the graphs of evaluation and training, in float64 if possible.

    A float64 capture shows which values follow the model's precision and which the code fixes to float32. A model that
    does not run in float64 is captured in its own precision.

    Args:
        trials: runs of the original, which is left unchanged.
        free: the lengths to leave free, where torch.export can.

    Returns:
        Whether the capture is in float64, and mode (training or not) → graph.

    Raises:
        NoPair, UsageError, LongLength: as `captured`.
    """
    own = _Original(trials)
    try:
        with default_dtype("float64"):
            wide = _Original(trials, double=True)
            graphs = _both(wide, free)
        if is_all_double(graphs.values()) or in_double(own.module, trials.args, trials.kwargs) is not None:
            return True, graphs
    except PortError:
        pass
    return False, _both(own, free)


class _Original:
    """The original and its example inputs, in its own precision or in float64."""

    def __init__(self, trials: Trials, *, double: bool = False) -> None:
        self.trials, self.module, self.double = trials, trials.module, double
        self.args: tuple[Any, ...] = trials.args
        self.kwargs: dict[str, Any] = trials.kwargs
        if is_on_meta(self.module):
            self.args, self.kwargs = on_meta(self.args, self.kwargs)
        if double:
            self.args, self.kwargs = pytree.tree_map(in_float64, (self.args, self.kwargs))
        self._known: dict[tuple[frozenset[tuple[Axis, int]], tuple[FreeLength, ...]], BothModes] = {}

    def captured(self, sizes: Sizes, *, free: Sequence[FreeLength]) -> BothModes:
        """Return its captures at the example's input lengths, except for these sizes; each is made once."""
        tensors = tensors_of(self.args, self.kwargs)
        # A resized tensor is detached: one that requires a gradient becomes another input.
        other = {
            (number, axis): size
            for (number, axis), size in sizes.items()
            if tensors[number].shape[axis] != size or tensors[number].requires_grad
        }
        key = frozenset(other.items()), tuple(free)
        if key not in self._known:
            call = resized(self.args, self.kwargs, other)
            self._known[key] = BothModes(self.module, *call, layers=self.trials.layers, free=free, double=self.double)
        return self._known[key]


def _both(original: _Original, free: Sequence[FreeLength]) -> dict[bool, Graph]:
    """Capture both graphs with the same lengths free: a length that one mode fixes is fixed in the written module."""
    looped = looped_lengths(original.trials, free)
    if looped:
        graphs = _looped(original, free, looped)
        if graphs is not None:
            return graphs
    # A length of 1 is not looped over: its extra operators are broadcasting.
    left = free = [length for length in free if length not in looped or length.size == 1]
    while True:
        modes = original.captured({}, free=left)
        graphs = {training: modes.graph(training=training) for training in (False, True)}
        fixed = {axis for graph in graphs.values() for axis in fixed_axes(graph)} | _named_differently(graphs)
        if all(fixed == fixed_axes(graph) for graph in graphs.values()):
            break
        left = [length for length in left if not fixed & {*length.axes}]
    lost = [length for length in free if fixed & {*length.axes}]
    non_batch = [length for length in free if any(axis for _, axis in length.axes)]
    # A length may be fixed because of another one: try to vary all lost lengths together, then all but the batch, then
    # each alone.
    for lengths in dict.fromkeys((tuple(lost), tuple(non_batch), *((length,) for length in lost))) if lost else ():
        if not lengths:
            continue  # every free length is a batch length
        others = [length for length in left if length not in lengths and length not in lost]
        found = _generalised(original, others, lengths)
        if found is not None:
            return found
    return with_same_loops(graphs)


def _named_differently(graphs: dict[bool, Graph]) -> set[Axis]:
    """Return the axes whose lengths have different names in the two modes: one mode treats two lengths as equal."""
    one, other = (shapes_of(graph) for graph in graphs.values())
    return {
        (number, axis)
        for number, shapes in enumerate(zip(one, other, strict=True))
        for axis, sizes in enumerate(zip(*shapes, strict=True))
        if sizes[0] != sizes[1]
    }


def _looped(original: _Original, free: Sequence[FreeLength], looped: Sequence[FreeLength]) -> dict[bool, Graph] | None:
    """Capture graphs with lengths free that Python code loops over; None where the steps cannot be rerolled.

    The captures are at short lengths, so that their cost does not grow with the inputs.
    """
    others = [length for length in free if length not in looped]
    graphs = _generalised(original, others, looped, short_sizes)
    if graphs is None:
        return None
    fixed = {axis for graph in graphs.values() for axis in fixed_axes(graph)}
    lost = [length for length in others if fixed & {*length.axes}]
    if lost:
        left = [length for length in others if length not in lost]
        graphs = _generalised(original, left, [*looped, *lost], short_sizes) or graphs
    return graphs


def _generalised(
    original: _Original,
    free: Sequence[FreeLength],
    lost: Sequence[FreeLength],
    several: Callable[[Trials, Sequence[FreeLength]], list[Sizes] | None] = several_sizes,
) -> dict[bool, Graph] | None:
    """Free lengths that torch.export fixed, by generalising over captures at several sizes; None if that fails."""
    sizes = several(original.trials, lost)
    if sizes is None:
        return None
    # Name them together with the lengths that stay free, so that each name belongs to one length.
    names = names_of([*free, *lost], tensors_of(original.args, original.kwargs))
    numbers = {name: tuple(at[length.axes[0]] for at in sizes) for name, length in names.items() if length in lost}
    found = {}
    several_modes = [original.captured(at, free=free) for at in sizes]
    for training in (False, True):
        try:
            graphs = [modes.graph(training=training) for modes in several_modes]
        except PortError:
            return None
        one = generalised(graphs, numbers)
        if one is None:
            return None
        found[training] = after("generalize-lengths", one, training=training)
    return {training: replace(graph, unguarded=tuple(numbers)) for training, graph in with_same_loops(found).items()}


def fixed_axes(graph: Graph) -> set[Axis]:
    """Return the axes of a graph's inputs that have a fixed length."""
    shapes = enumerate(shapes_of(graph))
    return {(number, axis) for number, shape in shapes for axis, size in enumerate(shape) if isinstance(size, int)}


def captured(
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    training: bool,
    layers: Collection[str],
    free: Sequence[FreeLength] = (),
    double: bool = False,
) -> Graph:
    """Capture a module in one mode, leaving as many of the free lengths free as torch.export can.

    Raises:
        NoPair: the module cannot be captured; says where, and what to do.
        UsageError: the module does not take its inputs.
        LongLength: as `traced`.
    """
    return BothModes(module, args, kwargs, layers=layers, free=free, double=double).graph(training=training)


class BothModes:
    """Lazy captures of a module in evaluation and in training; one trace serves both if it does not read the mode.

    Args:
        module: the original; left unchanged.
        args: positional example inputs.
        kwargs: example inputs by name.
        layers: paths of the layers kept whole.
        free: the lengths to leave free, where torch.export can.
        double: whether the module, and its inputs, are in float64.
    """

    def __init__(
        self,
        module: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        layers: Collection[str],
        free: Sequence[FreeLength] = (),
        double: bool = False,
    ) -> None:
        self.module, self.args, self.kwargs, self.layers = module, args, kwargs, layers
        self.free, self.double = free, double
        self._of_both: Trace | None = None
        self._graphs: dict[bool, Graph] = {}

    def graph(self, *, training: bool) -> Graph:
        """Return the graph of a mode, captured when it is first needed.

        Raises:
            PortError, LongLength: as `captured`.
        """
        if training not in self._graphs:
            self._graphs[training] = self._graph(training)
        return self._graphs[training]

    def _graph(self, training: bool) -> Graph:
        if self._of_both is None:
            graph = self._captured(training)
        else:
            twin = copied_for_tracing(self.module, training=training, double=self.double)
            graph = after("export", self._of_both.graph_of(twin), training=training)
        return after("reroll-loops", rolled_loops(graph, training=training), training=training)

    def _captured(self, training: bool) -> Graph:
        last: Exception | None = None
        made: list[Trace] = []
        batch = [length for length in self.free if all(axis == 0 for _, axis in length.axes)]
        attempts = [list(lengths) for lengths in dict.fromkeys((tuple(self.free), tuple(batch), ()))]
        with quiet():
            while attempts:
                left = attempts.pop(0)
                # torch.export treats a length of 1 as a constant.
                ones = [length for length in left if length.size == 1]
                try:
                    made.append(self._traced(training, left, ones))
                    graph = made[-1].graph()
                except (PortError, LongLength):
                    raise
                except Exception as error:
                    last = error
                    continue
                graph = after("export", graph, training=training)
                # A length of 1 was replaced by a longer one; if it turns out to be fixed, capture lengths at 1.
                fixed = fixed_axes(graph)
                lost = [length for length in ones if fixed & {*length.axes}]
                if not lost:
                    # A failed attempt may have read the mode without a record of it.
                    if last is None and all(trace.is_of_both_modes for trace in made):
                        self._of_both = made[-1]
                    return graph
                attempts.insert(0, [length for length in left if length not in lost])
        assert last is not None
        raise refusal(last) from None

    def _traced(self, training: bool, left: Sequence[FreeLength], ones: Sequence[FreeLength]) -> Trace:
        def whole(inner: Any, path: str) -> bool:
            return path in self.layers

        inputs = resized(self.args, self.kwargs, {axis: length.other for length in ones for axis in length.axes})
        return traced(self.module, *inputs, training=training, whole=whole, free=left, double=self.double)


def refusal(error: Exception) -> NoPair:
    """Turn an error of torch.export into a `NoPair` that says where it happened and what to do."""
    text = str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    place = SourceLocation(frames[-1].filename, frames[-1].lineno or 0) if frames else _place_in(text)
    where = f"{place}: " if place is not None else ""
    line = frames[-1].line if frames else ""
    kind = type(error).__name__
    if "data-dependent" in text or any(name in kind for name in _DATA_DEPENDENT):
        return NoPair(
            f"{where}{f'`{line}` ' if line else ''}is data-dependent: its control flow, or the shape of its result, "
            "depends on a tensor's values, which a traced JAX program cannot read. Rewrite it with torch.where or a "
            "mask; make the deciding value a constant of the module; register a pair for the module (port.register); "
            "or translate the parts that do not need it (--submodule PATH)"
        )
    return NoPair(f"{where}{f'`{line}`: ' if line else ''}torch.export cannot capture this: {_first_line(error)}")


def _place_in(text: str) -> SourceLocation | None:
    found = [pair for pair in re.findall(r'File "([^"]+)", line (\d+)', text) if is_users(pair[0])]
    return SourceLocation(found[-1][0], int(found[-1][1])) if found else None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
