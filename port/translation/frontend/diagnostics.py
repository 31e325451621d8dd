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
from port.translation.frontend.stepped_lengths import short_sizes, walked_lengths
from port.translation.frontend.trials import Trials
from port.translation.ir.graph import Graph
from port.translation.ir.instrumentation import after
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.symbolic_lengths import names_of, shapes_of
from port.translation.passes.generalize_lengths import generalised
from port.translation.passes.reroll_loops import rolled_loops, with_same_loops

_DATA_DEPENDENT = ("DataDependent", "GuardOnData", "UserError", "Unbacked", "ConstraintViolation")


def both_modes(trials: Trials, *, free: Sequence[FreeLength] = ()) -> tuple[bool, dict[bool, Graph]]:
    """The graphs of evaluation and training; and whether they were captured in float64.

    In float64, what is computed in the model's own precision can be told from what the code says is float32. A model
    that does not run so is captured as it is.

    Args:
        trials: runs of the original, which is left as it is.
        free: the lengths to leave free, where torch.export does.

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
        """Its graphs at lengths of the inputs, the example's but for these; each is captured once."""
        given = tensors_of(self.args, self.kwargs)
        # A tensor that is resized is detached: one that requires a gradient is then another input.
        other = {
            (number, axis): size
            for (number, axis), size in sizes.items()
            if given[number].shape[axis] != size or given[number].requires_grad
        }
        key = frozenset(other.items()), tuple(free)
        if key not in self._known:
            call = resized(self.args, self.kwargs, other)
            self._known[key] = BothModes(self.module, *call, layers=self.trials.layers, free=free, double=self.double)
        return self._known[key]


def _both(original: _Original, free: Sequence[FreeLength]) -> dict[bool, Graph]:
    """Both graphs, with the same lengths free: what one mode fixes, the written module cannot leave free."""
    walked = walked_lengths(original.trials, free)
    if walked:
        graphs = _looped(original, free, walked)
        if graphs is not None:
            return graphs
    # A length of 1 is no walk: what it adds is broadcasting.
    left = free = [length for length in free if length not in walked or length.size == 1]
    while True:
        modes = original.captured({}, free=left)
        graphs = {training: modes.graph(training=training) for training in (False, True)}
        fixed = {axis for graph in graphs.values() for axis in fixed_axes(graph)} | _otherwise(graphs)
        if all(fixed == fixed_axes(graph) for graph in graphs.values()):
            break
        left = [length for length in left if not fixed & {*length.axes}]
    lost = [length for length in free if fixed & {*length.axes}]
    beside = [length for length in free if any(axis for _, axis in length.axes)]
    # What one length is fixed for may hold of others, which are then varied along with it; or of none but one.
    for again in dict.fromkeys((tuple(lost), tuple(beside), *((length,) for length in lost))) if lost else ():
        if not again:
            continue  # every free length is a batch's
        others = [length for length in left if length not in again and length not in lost]
        regained = _regained(original, others, again)
        if regained is not None:
            return regained
    return with_same_loops(graphs)


def _otherwise(graphs: dict[bool, Graph]) -> set[Axis]:
    """The axes whose lengths one mode calls otherwise than the other: it takes two for one."""
    one, other = (shapes_of(graph) for graph in graphs.values())
    return {
        (number, axis)
        for number, shapes in enumerate(zip(one, other, strict=True))
        for axis, sizes in enumerate(zip(*shapes, strict=True))
        if sizes[0] != sizes[1]
    }


def _looped(original: _Original, free: Sequence[FreeLength], walked: Sequence[FreeLength]) -> dict[bool, Graph] | None:
    """The graphs with lengths free that the code goes along step by step; None where the steps are no loop.

    They are captured at short lengths, so that what a capture costs does not grow with the inputs.
    """
    others = [length for length in free if length not in walked]
    graphs = _regained(original, others, walked, short_sizes)
    if graphs is None:
        return None
    fixed = {axis for graph in graphs.values() for axis in fixed_axes(graph)}
    lost = [length for length in others if fixed & {*length.axes}]
    if lost:
        left = [length for length in others if length not in lost]
        graphs = _regained(original, left, [*walked, *lost], short_sizes) or graphs
    return graphs


def _regained(
    original: _Original,
    free: Sequence[FreeLength],
    lost: Sequence[FreeLength],
    several: Callable[[Trials, Sequence[FreeLength]], list[Sizes] | None] = several_sizes,
) -> dict[bool, Graph] | None:
    """The graphs with lengths free that torch.export fixed: by what differs between captures at several."""
    sizes = several(original.trials, lost)
    if sizes is None:
        return None
    # Named together with those that stay free: a name is of one length.
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
    """The axes of a graph's inputs whose lengths are numbers."""
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
    """A module's run in one mode, with as many of the free lengths left free as torch.export can.

    Raises:
        NoPair: the module cannot be captured; says where, and what to do.
        UsageError: it does not take its inputs.
        LongLength: as `traced`.
    """
    return BothModes(module, args, kwargs, layers=layers, free=free, double=double).graph(training=training)


class BothModes:
    """A module's runs in evaluation and in training, captured when they are asked for: by one trace, if it is of both.

    Args:
        module: stays as it is.
        args: example inputs.
        kwargs: those by name.
        layers: paths of the layers kept whole.
        free: the lengths to leave free, where torch.export does.
        double: whether it is run in float64, as the inputs then are.
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
        """The run in a mode, captured when it is first asked for.

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
                # torch.export takes a length of 1 for a constant.
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
                # A length of 1 that turns out to be fixed has to be the one that was given.
                fixed = fixed_axes(graph)
                lost = [length for length in ones if fixed & {*length.axes}]
                if not lost:
                    # Of an attempt that failed it is not known whether it asked for the mode.
                    if last is None and all(trace.is_of_both_modes for trace in made):
                        self._of_both = made[-1]
                    return graph
                attempts.insert(0, [length for length in left if length not in lost])
        assert last is not None
        raise refusal(last) from None

    def _traced(self, training: bool, left: Sequence[FreeLength], ones: Sequence[FreeLength]) -> Trace:
        def whole(inner: Any, path: str) -> bool:
            return path in self.layers

        given = resized(self.args, self.kwargs, {axis: length.other for length in ones for axis in length.axes})
        return traced(self.module, *given, training=training, whole=whole, free=left, double=self.double)


def refusal(error: Exception) -> NoPair:
    """The sentence for what torch.export raised."""
    text = str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    place = SourceLocation(frames[-1].filename, frames[-1].lineno or 0) if frames else _place_in(text)
    where = f"{place}: " if place is not None else ""
    line = frames[-1].line if frames else ""
    kind = type(error).__name__
    if "data-dependent" in text or any(name in kind for name in _DATA_DEPENDENT):
        return NoPair(
            f"{where}{f'`{line}` ' if line else ''}is data-dependent: what it does, or how long its result is, "
            "depends on the values of a tensor, and a traced JAX program cannot ask for them. Write it with "
            "torch.where or a mask; make what decides a constant of the module; register a pair for the module "
            "(port.register); or translate the parts that do not need it (--submodule PATH)"
        )
    return NoPair(f"{where}{f'`{line}`: ' if line else ''}torch.export cannot capture this: {_first_line(error)}")


def _place_in(text: str) -> SourceLocation | None:
    found = [pair for pair in re.findall(r'File "([^"]+)", line (\d+)', text) if is_users(pair[0])]
    return SourceLocation(found[-1][0], int(found[-1][1])) if found else None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
