"""A torch module, run once by torch.export in one mode: its graph, with every call of a module marked."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.translation.copies import copied
from port.translation.graph import Graph
from port.translation.own_gradients import traced_functions
from port.translation.packing import padded, refuse_packed
from port.translation.places import whole_stacks
from port.translation.reading import read_graph
from port.translation.wrapping import Notes, wrapped


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
        self.module(*args, **kwargs)
        return list(notes.marks)


def capture(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    training: bool,
    whole: Callable[[torch.nn.Module, str], bool],
    dynamic: Callable[[torch.Tensor], dict[int, Any] | None],
) -> Graph:
    """The graph of a module's run.

    Args:
        module: left as it is: a copy is run.
        args: example inputs: tensors, and trees of them.
        kwargs: the same, by name.
        training: the mode.
        whole: whether a module at a path is kept whole.
        dynamic: an input's axes whose lengths are to stay free, as ``dynamic_shapes`` of torch.export.

    Raises:
        NoPair: a packed sequence among the inputs.
        Exception: what torch.export raises; `port.translation.refusals` makes sentences of it.
    """
    refuse_packed(args, kwargs)
    module = copied(module).train(training)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    with (
        torch.enable_grad(),
        wrapped(module, whole) as notes,
        padded(),
        traced_functions(notes) as unsaid,
        whole_stacks(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        flat = _Flat(module, spec, constants, notes)
        # Of a module without inputs torch.export takes no shapes at all.
        shapes = (tuple(dynamic(tensor) for tensor in tensors),) if tensors else None
        program = torch.export.export(flat, tensors, strict=False, dynamic_shapes=shapes)
        # Nothing is decomposed but writing in place, which becomes making anew.
        program = program.run_decompositions({})
    graph = read_graph(program, notes, prefix="module.")
    graph.own_gradients = tuple(unsaid)
    return graph
