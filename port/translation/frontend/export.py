"""Trace a torch module with torch.export in one mode, with every call of a submodule marked in the graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.parity.sides.copies import copied
from port.translation.frontend.autograd_functions import traced_functions
from port.translation.frontend.branch_selection import outside_branches
from port.translation.frontend.called_functions import noted_functions
from port.translation.frontend.called_methods import noted_methods
from port.translation.frontend.constants import (
    check_constants,
    held_names,
    made_in_forward,
    naming_hidden_writes,
)
from port.translation.frontend.drawn_branches import refuse_branches_of_inputs, select_drawn_branches
from port.translation.frontend.free_lengths import FreeLength
from port.translation.frontend.functional_form import functional
from port.translation.frontend.fx_import import read_graph
from port.translation.frontend.global_hooks import without_global_hooks
from port.translation.frontend.instrument import Notes, wrapped
from port.translation.frontend.long_formulas import LongLength
from port.translation.frontend.packed_sequences import padded, refuse_packed
from port.translation.frontend.precision import without_numbers
from port.translation.frontend.resized_inputs import Axis
from port.translation.frontend.source_locations import full_stack_traces
from port.translation.ir.graph import Graph, LayerCall
from port.translation.ir.module_calls import ScopeEnter


class _Flat(torch.nn.Module):
    """Wrap a module as a function of its flattened tensors; it returns only the marks, which hold every result."""

    def __init__(self, module: torch.nn.Module, spec: Any, constants: list[Any], notes: Notes) -> None:
        super().__init__()
        self.module = module
        self._call = (spec, constants, notes)

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        spec, constants, notes = self._call
        notes.marks.clear()
        notes.counts.clear()
        inputs = iter(tensors)
        leaves = [next(inputs) if leaf is None else leaf[0] for leaf in constants]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        try:
            with notes.reads.watched(), outside_branches():
                self.module(*args, **kwargs)
        except LongLength as error:
            raise error.found_in(tensors) from None
        return list(notes.marks)


@dataclass(frozen=True)
class Trace:
    """The result of torch.export for one run.

    Attributes:
        module: the copy that ran.
        program: the exported program, in functional form.
        notes: what its marks and layer nodes refer to.
        made: names of the constants that the run itself made.
        guards: torch's conditions on the lengths of the inputs under which the program is valid.
        own_gradients: the functions whose custom gradient the program lacks.
        groups: groups of input axes that have the same length.
    """

    module: torch.nn.Module
    program: torch.export.ExportedProgram
    notes: Notes
    made: set[str]
    guards: tuple[str, ...]
    own_gradients: tuple[str, ...]
    groups: tuple[tuple[Axis, ...], ...]

    @property
    def is_of_both_modes(self) -> bool:
        """Whether the other mode's trace would be the same."""
        return not self.notes.reads.found

    def graph(self) -> Graph:
        """Return the run as a `Graph`.

        Raises:
            NoPair: the run reads state that is hidden from torch.
        """
        graph = read_graph(
            self.program,
            self.notes,
            prefix="module.",
            names=held_names(self.module),
            groups=self.groups,
            guards=self.guards,
            own_gradients=self.own_gradients,
        )
        check_constants(graph, self.module, self.made)
        return graph

    def graph_of(self, module: torch.nn.Module) -> Graph:
        """Return the graph as a run of another copy of the module, for instance one in the other mode."""
        graph = self.graph()
        steps = (
            replace(step, module=module.get_submodule(step.path)) if isinstance(step, LayerCall | ScopeEnter) else step
            for step in graph.steps
        )
        return replace(graph, steps=tuple(steps))


def copied_for_tracing(module: torch.nn.Module, *, training: bool, double: bool) -> torch.nn.Module:
    """Copy a module in a mode, with parameters that are not filled; ``double`` converts it to float64."""
    made: torch.nn.Module = copied(module, partial(without_numbers, double=double)).train(training)
    select_drawn_branches(made, numbers=False)
    return made


@without_global_hooks()
def traced(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    training: bool,
    whole: Callable[[torch.nn.Module, str], bool],
    free: Sequence[FreeLength] = (),
    double: bool = False,
) -> Trace:
    """Trace one run of a module.

    Args:
        module: left unchanged: a copy is run, with parameters that are not filled.
        args: example inputs: tensors, and trees of them.
        kwargs: example inputs by name.
        training: the mode.
        whole: whether the module at a path is kept whole, as a leaf.
        free: lengths of the inputs to leave free, where torch.export can.
        double: whether the module, and its inputs, are in float64.

    Raises:
        NoPair: a packed sequence among the inputs.
        LongLength: a free length leads to a formula that is too long to read.
        Exception: torch.export's own errors; `port.translation.frontend.diagnostics` rewords them.
    """
    refuse_packed(args, kwargs)
    module = copied_for_tracing(module, training=training, double=double)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    with (
        torch.enable_grad(),
        wrapped(module, whole) as notes,
        noted_functions(module, notes),
        noted_methods(module, notes),
        padded(),
        traced_functions(notes) as inexpressible,
        full_stack_traces(),
        notes.origins.noted(),
        _unchecked_distributions(),
        naming_hidden_writes(module),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        flat = _Flat(module, spec, constants, notes)
        # For a module without inputs torch.export accepts no dynamic_shapes.
        axes = [axis for length in free for axis in length.axes]
        shapes = (tuple(_dynamic(number, axes) for number in range(len(tensors))),) if tensors else None
        program = torch.export.export(flat, tensors, strict=False, dynamic_shapes=shapes)
        # Private, and the only place where torch keeps the conditions on lengths.
        guards = tuple(getattr(program, "_guards_code", None) or ())
        refuse_branches_of_inputs(program)
        made = made_in_forward(program)
        program = functional(program)
    return Trace(module, program, notes, made, guards, tuple(inexpressible), tuple(length.axes for length in free))


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """Turn off argument checks of distributions within the context; they would read values."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


def _dynamic(number: int, free: Collection[Axis]) -> dict[int, Any] | None:
    """Return the ``dynamic_shapes`` entry of a tensor; None where all its lengths are fixed."""
    return {axis: torch.export.Dim.AUTO for tensor, axis in free if tensor == number} or None
