"""Products of matrices: one that lies transposed is written ``.T``, which is cheap, and clearer where it is used."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from port.pairs.ops.axes import Product
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout, torchs
from port.translation.lowering.paired import Paired, give, in_torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_product(stage: LoweringContext, paired: Paired, axes: Product) -> None:
    """Write an operator of `Product`."""
    lying = {name for name in axes.matrices if _lies_transposed(stage, paired.variables[name])}
    filled = {
        name: stage.ref(variable) if name in lying else in_torchs(stage, variable)
        for name, variable in paired.variables.items()
        if name != axes.rows
    }
    template = paired.pair.jax
    for name in lying:
        template = _with_lying(template, name)
    layouts = [torchs(result.rank) for result in paired.operation.results]
    follows = None
    if axes.rows is not None:
        value: Value = paired.variables[axes.rows]
        layouts = [rows_first(stage, value)]
        filled[axes.rows] = stage.need(value, layouts[0])
        follows = value if layouts[0] == stage.layout(value) else None
    give(stage, paired, filled, layouts, template=template, follows=follows)


def _lies_transposed(stage: LoweringContext, value: Value) -> bool:
    layout = stage.layout(value)
    return layout.order == (1, 0) and layout.folded is None


def _with_lying(template: str, name: str) -> str:
    """A template for a matrix that lies transposed: ``.T`` of it is as it lies."""
    return re.sub(rf"\b{name}\b(\.T)?", lambda found: name if found[1] else f"{name}.T", template)


def rows_first(stage: LoweringContext, value: Value) -> Layout:
    """The layout that a value has, with torch's last axis last: what a linear layer takes."""
    layout = stage.layout(value)
    order = tuple(dim for dim in layout.order if dim != value.rank - 1)
    folded = layout.folded
    if folded is not None and folded.axis == value.rank - 1:
        folded = None
    return replace(layout, order=(*order, value.rank - 1), folded=folded) if value.rank else layout
