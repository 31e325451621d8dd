"""Capture a module in evaluation and in training, and lower both runs to JAX."""

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
from port.translation.ir.module_calls import ScopeExit
from port.translation.ir.symbolic_lengths import shapes_of
from port.translation.lowering.layout_assignment import analyse
from port.translation.lowering.lower_graph import lower_graph
from port.translation.passes.dissolve_functions import with_same_functions
from port.translation.passes.identities import without_identities
from port.translation.passes.needless_expands import without_needless_expands
from port.translation.passes.reroll_loops import stateful_loops

if TYPE_CHECKING:
    import torch

_PLAIN = bool | int | float | complex | str | bytes | None
"""What a ``forward`` may return beside tensors; alone it is nothing to translate."""
Runs = dict[bool, LoweredGraph]
"""Mode (True for training) → its lowered graph."""


@dataclass(frozen=True)
class BothRuns:
    """A module's captured and lowered runs.

    Attributes:
        module: the user's module.
        root: the module that was run: the user's, or a model that wraps it if it is a single layer.
        args: its positional arguments.
        kwargs: its keyword arguments.
        layers: paths of the layers kept whole → the torch layer.
        doubled: whether it was captured in float64.
        graphs: mode (True for training) → captured graph.
        runs: mode → lowered graph.
        trials: trial runs of the root at other lengths.
        free: the lengths that were to be left free.
        layouts: the layouts of both runs' values.
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
    """Lower both graphs to JAX, with the layouts that were assigned to their values."""
    return {t: after("lower", lower_graph(graph, root, layouts, training=t), training=t) for t, graph in graphs.items()}


def _check_results(root: torch.nn.Module, graphs: Mapping[bool, Graph]) -> None:
    """Check that a run does not return plain values alone: there is nothing to translate.

    Raises:
        UsageError: it does, and writes to no buffer; says what ``forward`` returns.
    """
    from torch.utils import _pytree as pytree

    ends = [step for graph in graphs.values() for step in graph.steps if isinstance(step, ScopeExit) and step.is_roots]
    leaves = [leaf for end in ends for leaf in pytree.tree_leaves(end.results)]
    # An empty list or tuple is a result; the proof says that it cannot judge it.
    if not leaves or any(graph.written for graph in graphs.values()):
        return
    if not all(isinstance(leaf, _PLAIN) for leaf in leaves):
        return
    returned = " or ".join(dict.fromkeys(repr(end.results)[:100] for end in ends))
    raise UsageError(
        f"{type(root).__qualname__}.forward returned {returned}, which holds no tensor: there is nothing to translate. "
        "Return the tensors that it computes: one, or several in a tuple, a list or a dict"
    )


def both_runs(
    module: torch.nn.Module,
    args: Any,
    kwargs: dict[str, Any] | None,
    *,
    free: Sequence[FreeLength] | None = None,
    remat: bool = False,
    check: bool = True,
) -> BothRuns:
    """Capture and lower a module in both modes.

    Args:
        module: a PyTorch module; left unchanged.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: keyword arguments.
        free: the lengths to leave free; by default all that can vary.
        remat: whether calls will be checkpointed: `nnx.remat` splits a module and merges it again, so that a loop
            around it has to carry the module.
        check: whether to check that a copy of the module computes the same, which any comparison relies on.

    Raises:
        UsageError: not a module, or it does not take its inputs, or returns no tensor.
        NoPair: torch.export cannot capture the module; says where and what to do.
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
            # If no input axis is to blame, fix all lengths.
            free = fewer if len(fewer) < len(free) else []
    _check_results(root, graphs)
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
