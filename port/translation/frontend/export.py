"""A torch module, run once by torch.export in one mode: its graph, with every call of a module marked."""

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
    told_what_is_written,
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
from port.translation.frontend.source_locations import whole_stacks
from port.translation.ir.graph import Graph, LayerCall
from port.translation.ir.module_calls import ScopeEnter


class _Flat(torch.nn.Module):
    """The module as a function of its flattened tensors. It returns the marks alone: they hold all that is made."""

    def __init__(self, module: torch.nn.Module, spec: Any, constants: list[Any], notes: Notes) -> None:
        super().__init__()
        self.module = module
        self._told = (spec, constants, notes)

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        spec, constants, notes = self._told
        notes.marks.clear()
        notes.counts.clear()
        given = iter(tensors)
        leaves = [next(given) if leaf is None else leaf[0] for leaf in constants]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        try:
            with notes.reads.watched(), outside_branches():
                self.module(*args, **kwargs)
        except LongLength as error:
            raise error.found_in(tensors) from None
        return list(notes.marks)


@dataclass(frozen=True)
class Trace:
    """What torch.export made of a run.

    Attributes:
        module: the copy that ran.
        program: functional.
        notes: what its marks and layers stand for.
        made: names of the constants that the run itself made.
        guards: for which lengths of the inputs it stands, as torch says it.
        own_gradients: the functions whose gradient it does not have.
        groups: axes of the inputs that have one length.
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
        """The run as a graph of its own.

        Raises:
            NoPair: state that hides from torch.
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
        """The same run of another copy of the module, as one in the other mode is."""
        graph = self.graph()
        steps = (
            replace(step, module=module.get_submodule(step.path)) if isinstance(step, LayerCall | ScopeEnter) else step
            for step in graph.steps
        )
        return replace(graph, steps=tuple(steps))


def copied_for_tracing(module: torch.nn.Module, *, training: bool, double: bool) -> torch.nn.Module:
    """A copy of a module in a mode, without memory for its parameters; in float64, if that is asked."""
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
    """A module's run.

    Args:
        module: left as it is: a copy is run, without memory for its parameters.
        args: example inputs: tensors, and trees of them.
        kwargs: the same, by name.
        training: the mode.
        whole: whether a module at a path is kept whole.
        free: lengths of the inputs that are to stay free, where torch.export leaves them so.
        double: whether it is run in float64, as the inputs then are.

    Raises:
        NoPair: a packed sequence among the inputs.
        LongLength: a free length becomes a formula that nobody could read.
        Exception: what torch.export raises; `port.translation.frontend.diagnostics` makes sentences of it.
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
        traced_functions(notes) as unsaid,
        whole_stacks(),
        notes.origins.noted(),
        _unchecked_distributions(),
        told_what_is_written(module),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        flat = _Flat(module, spec, constants, notes)
        # Of a module without inputs torch.export takes no shapes at all.
        axes = [axis for length in free for axis in length.axes]
        shapes = (tuple(_dynamic(number, axes) for number in range(len(tensors))),) if tensors else None
        program = torch.export.export(flat, tensors, strict=False, dynamic_shapes=shapes)
        # Private, and the only place where torch says for which lengths the program stands.
        guards = tuple(getattr(program, "_guards_code", None) or ())
        refuse_branches_of_inputs(program)
        made = made_in_forward(program)
        program = functional(program)
    return Trace(module, program, notes, made, guards, tuple(unsaid), tuple(length.axes for length in free))


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """Within it, distributions do not check their arguments, which would ask for numbers."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


def _dynamic(number: int, free: Collection[Axis]) -> dict[int, Any] | None:
    """The ``dynamic_shapes`` of a tensor; None where all its lengths are fixed."""
    return {axis: torch.export.Dim.AUTO for tensor, axis in free if tensor == number} or None
