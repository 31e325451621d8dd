"""Functionalise an exported program: in-place writes become new values; no other operator is decomposed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.export import exported_program

from port.translation.frontend.composite_operators import DECOMPOSED, is_composite, knows_which_stay, stays
from port.translation.frontend.in_place import written_anew

_SPLIT = "_split_decomp_table_to_cia_and_python_decomp"
"""torch's function that says which composite operators stay under a table of decompositions."""
_KEEP = "_special_op_to_preserve_cia"
"""What it says of one that stays. Both are private to torch."""

_WITHIN = ("where",)
"""Those that stay and that come up within operators which are no composite ones: hardshrink, multi_margin_loss."""


def functional(program: Any) -> Any:
    """The program without operators that write in place; it may be the same object.

    torch itself traces it once more for this; `written_anew` does without, where it can. By itself torch registers each
    of its 512 composite operators as one that stays, with 22 kernels each, and takes them back afterwards: two thirds
    of the time that a small program takes (torch 2.14.1). Here only those that the program has are registered, if no
    other can come up. A torch without those private functions registers all.

    Args:
        program: a ``torch.export.ExportedProgram``.
    """
    if written_anew(program):
        return program
    staying = composite_operators(program)
    with nullcontext() if staying is None else _staying(staying):
        return program.run_decompositions({})


def composite_operators(program: Any) -> set[Any] | None:
    """The composite operators of a program that are to stay; None where others may come up, or cannot be known."""
    if not (hasattr(exported_program, _SPLIT) and hasattr(exported_program, _KEEP) and knows_which_stay()):
        return None
    packets = [getattr(torch.ops.aten, name) for name in _WITHIN]
    staying = {other for packet in packets for other in _overloads(packet) if stays(other)}
    for operator in set(_operators(program)):
        name = operator._schema.name.partition("::")[2]
        if not is_composite(operator):
            # What writes in place becomes the operator that does not, under the same name.
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
    """Those of its graph, and of the graphs within."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                yield node.target


@contextmanager
def _staying(operators: set[Any]) -> Iterator[None]:
    """Within it, these are the composite operators that stay."""
    keep = getattr(exported_program, _KEEP)
    with patch.object(exported_program, _SPLIT, lambda table: (dict.fromkeys(operators, keep), table)):
        yield
