"""A torch module, run once by torch.export in one mode: its graph, with every call of a module marked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.parity.sides.copies import copied
from port.translation.frontend.autograd_functions import traced_functions
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
from port.translation.frontend.instrument import Notes, wrapped
from port.translation.frontend.long_formulas import LongLength
from port.translation.frontend.packed_sequences import padded, refuse_packed
from port.translation.frontend.precision import without_numbers
from port.translation.frontend.resized_inputs import Axis
from port.translation.frontend.source_locations import whole_stacks
from port.translation.ir.graph import Graph
from port.translation.ir.symbolic_lengths import name_lengths


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
            self.module(*args, **kwargs)
        except LongLength as error:
            raise error.found_in(tensors) from None
        return list(notes.marks)


def capture(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    training: bool,
    whole: Callable[[torch.nn.Module, str], bool],
    free: Sequence[FreeLength] = (),
    double: bool = False,
) -> Graph:
    """The graph of a module's run.

    Args:
        module: left as it is: a copy is run, without memory for its parameters.
        args: example inputs: tensors, and trees of them.
        kwargs: the same, by name.
        training: the mode.
        whole: whether a module at a path is kept whole.
        free: lengths of the inputs that are to stay free, where torch.export leaves them so.
        double: whether it is run in float64, as the inputs then are.

    Raises:
        NoPair: a packed sequence among the inputs; state that hides from torch.
        LongLength: a free length becomes a formula that nobody could read.
        Exception: what torch.export raises; `port.translation.frontend.diagnostics` makes sentences of it.
    """
    refuse_packed(args, kwargs)
    module = copied(module, partial(without_numbers, double=double)).train(training)
    select_drawn_branches(module, numbers=False)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    with (
        torch.enable_grad(),
        wrapped(module, whole) as notes,
        padded(),
        traced_functions(notes) as unsaid,
        whole_stacks(),
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
    graph = read_graph(program, notes, prefix="module.", names=held_names(module))
    check_constants(graph, module, made)
    graph.own_gradients, graph.guards = tuple(unsaid), guards
    name_lengths(graph, [length.axes for length in free])
    return graph


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
