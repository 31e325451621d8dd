"""A module's runs in evaluation and in training, captured and carried over to JAX: what is written, or counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import NoPair, UsageError, described
from port.translation.frontend.canonical_names import with_canonical_names
from port.translation.frontend.check_forward import (
    check_draws,
    check_forward,
    check_methods,
)
from port.translation.frontend.diagnostics import both_modes
from port.translation.frontend.free_lengths import FreeLength, free_lengths
from port.translation.frontend.input_lengths import InputLengths
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.long_formulas import LongLength
from port.translation.frontend.meta_device import is_on_meta, on_meta
from port.translation.frontend.output_sizes import with_spatial_output_sizes
from port.translation.frontend.python_random import generators_of, states
from port.translation.frontend.single_layer import as_root
from port.translation.frontend.trials import Trials
from port.translation.ir.graph import Graph
from port.translation.ir.instrumentation import after
from port.translation.ir.layout_decisions import Layouts
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.symbolic_lengths import shapes_of
from port.translation.lowering.layout_assignment import analyse
from port.translation.lowering.lower_graph import lower_graph
from port.translation.passes.dissolve_functions import with_same_functions
from port.translation.passes.identities import without_identities
from port.translation.passes.needless_expands import without_needless_expands
from port.translation.passes.reroll_loops import stateful_loops

if TYPE_CHECKING:
    import torch

Runs = dict[bool, LoweredGraph]
"""By whether it is of training."""


@dataclass(frozen=True)
class BothRuns:
    """What came of a module's runs.

    Attributes:
        module: what was given.
        root: what was run: the module, or a model that holds it, where it is a layer alone.
        args: its positional arguments.
        kwargs: those by name.
        layers: paths of the layers kept whole → the torch layer.
        doubled: whether it was captured in float64.
        graphs: by whether it is of training.
        runs: the same in JAX's terms.
        trials: runs of the root at other lengths.
        free: the lengths that were asked to be left free.
        layouts: of both runs.
    """

    module: torch.nn.Module
    root: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layers: dict[str, Any]
    doubled: bool
    graphs: dict[bool, Graph]
    runs: Runs
    trials: Trials
    free: tuple[FreeLength, ...] = ()
    layouts: Layouts = field(default_factory=Layouts)


def lowered_runs(graphs: Mapping[bool, Graph], root: torch.nn.Module, layouts: Layouts) -> Runs:
    """Both graphs carried over to JAX, with their values' axes in an order that was found."""
    return {t: after("lower", lower_graph(graph, root, layouts, training=t), training=t) for t, graph in graphs.items()}


def both_runs(
    module: torch.nn.Module,
    args: Any,
    kwargs: dict[str, Any] | None,
    *,
    free: Sequence[FreeLength] | None = None,
    remat: bool = False,
    check: bool = True,
) -> BothRuns:
    """Run a module in both modes.

    Args:
        module: of PyTorch; it stays as it is.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        free: the lengths to leave free; by default those that the original takes others for.
        remat: whether calls are to be checkpointed: `nnx.remat` takes a module apart and puts it together again, so
            that a loop around it has to take the module along.
        check: whether a copy of the module is seen to compute the same, as whoever compares anything needs it.

    Raises:
        UsageError: no module, or inputs that it does not take.
        NoPair: a module that torch.export cannot capture; says where and what to do.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"a torch.nn.Module is translated, got {described(module)}")
    args, kwargs = (tuple(args) if isinstance(args, tuple | list) else (args,)), dict(kwargs or {})
    root = as_root(module)
    layers = kept_layers(root)
    trials = Trials(root, args, kwargs, layers)
    without_weights = is_on_meta(module)
    if without_weights:
        args, kwargs = on_meta(args, kwargs)
    if trials.need_numbers or (check and not without_weights):
        check_forward(root, args, kwargs)
    else:
        check_methods(root)
    if free is None:
        free = free_lengths(trials)
    while True:
        try:
            before = states()
            doubled, graphs = both_modes(trials, free=free)
            if states() != before or generators_of(root):
                check_draws(root, args, kwargs)
            break
        except LongLength as error:
            if not free:
                raise NoPair(f"{error}: it depends on the values of a tensor") from None
            fewer = [length for length in free if not error.axes & {*length.axes}]
            # Where no input has such a length, none stays free.
            free = fewer if len(fewer) < len(free) else []
    passes: dict[str, Callable[[Graph], Graph]] = {
        "remove-identities": without_identities,
        "needless-expands": without_needless_expands,
        "output-sizes": partial(with_spatial_output_sizes, root),
        "canonical-names": partial(with_canonical_names, root, layers),
        **({"stateful-loops": stateful_loops} if remat else {}),
    }
    for name, run in passes.items():
        graphs = {training: after(name, run(graph), training=training) for training, graph in graphs.items()}
    graphs = with_same_functions(graphs)
    example = InputLengths(shapes_of(graphs[True])).of(args, kwargs)
    layouts = after("layout", analyse(graphs, root, example), training=None)
    runs = lowered_runs(graphs, root, layouts)
    return BothRuns(module, root, args, kwargs, layers, doubled, graphs, runs, trials, tuple(free), layouts)
