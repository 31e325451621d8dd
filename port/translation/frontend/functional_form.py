"""Functionalise an exported program: in-place writes become new values; no other operator is decomposed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.export import exported_program

from port.translation.frontend.composite_operators import DECOMPOSED, is_composite, knows_which_stay, stays
from port.translation.frontend.in_place import replace_in_place_operators

_SPLIT = "_split_decomp_table_to_cia_and_python_decomp"
"""torch's function that decides which composite operators stay under a table of decompositions."""
_KEEP = "_special_op_to_preserve_cia"
"""The value it assigns to an operator that stays. Both are private to torch."""

_WITHIN = ("where",)
"""Composite operators that stay and appear inside non-composite ones, such as hardshrink and multi_margin_loss."""


def functional(program: Any) -> Any:
    """Return the program without operators that write in place; it may be the same object.

    torch's own way is to trace the program again; `replace_in_place_operators` avoids that where it can. Otherwise
    torch would register each of its 512 composite operators as one that stays, with 22 kernels each, and unregister
    them afterwards: two thirds of the time for a small program (torch 2.14.1). Here only the program's own are
    registered, if no other can appear. A torch without these private functions registers all.

    Args:
        program: a ``torch.export.ExportedProgram``.
    """
    if replace_in_place_operators(program):
        return program
    staying = composite_operators(program)
    with nullcontext() if staying is None else _staying(staying):
        return program.run_decompositions({})


def composite_operators(program: Any) -> set[Any] | None:
    """Return the composite operators of a program that should stay; None where others may appear or are unknown."""
    if not (hasattr(exported_program, _SPLIT) and hasattr(exported_program, _KEEP) and knows_which_stay()):
        return None
    packets = [getattr(torch.ops.aten, name) for name in _WITHIN]
    staying = {other for packet in packets for other in _overloads(packet) if stays(other)}
    for operator in set(_operators(program)):
        name = operator._schema.name.partition("::")[2]
        if not is_composite(operator):
            # An in-place operator becomes its functional variant, of the same name.
            packet = getattr(getattr(torch.ops, operator.namespace), name.removesuffix("_"), None)
            staying |= {other for other in _overloads(packet) if name.endswith("_") and stays(other)}
        elif stays(operator):
            staying.add(operator)
        elif name not in DECOMPOSED:
            return None
    return staying


def _overloads(packet: Any) -> list[Any]:
    return [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]


def _operators(program: Any) -> Iterator[Any]:
    """Yield the operators of a program's graph and its subgraphs."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                yield node.target


@contextmanager
def _staying(operators: set[Any]) -> Iterator[None]:
    """Let exactly these composite operators stay, within the context."""
    keep = getattr(exported_program, _KEEP)
    with patch.object(exported_program, _SPLIT, lambda table: (dict.fromkeys(operators, keep), table)):
        yield
