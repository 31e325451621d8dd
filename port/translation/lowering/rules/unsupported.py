"""Refuse operators with data-dependent output shapes, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import NoPair
from port.translation.ir.graph import Operation

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

_INSTEAD = {
    "aten.masked_select": "use torch.where, or multiply by the mask",
    "aten.nonzero": "keep the mask, and use torch.where",
    "aten.bincount": "sum torch.nn.functional.one_hot of a fixed number of classes",
    "aten.item": "keep it a tensor",
}


def _refused(stage: LoweringContext, operation: Operation) -> None:
    name = operation.operator.rpartition(".")[0]
    instead = _INSTEAD.get(name, "compute it outside of the module")
    what = (
        "it converts a tensor to a Python number"
        if name == "aten.item"
        else "the length of its result depends on values"
    )
    raise NoPair(f"{what}, which a traced JAX program cannot know; {instead}")


RULES = dict.fromkeys(
    (
        *("aten.masked_select", "aten.nonzero", "aten.nonzero_numpy", "aten.argwhere", "aten.bincount", "aten.item"),
        *("aten._local_scalar_dense", "aten._unique", "aten._unique2", "aten.unique_dim", "aten.unique_consecutive"),
    ),
    _refused,
)
