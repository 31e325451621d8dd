"""Matrix products: a matrix stored transposed is read through ``.T``, instead of a copy in torch's layout."""

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
    """Lower an operator whose pair has `Product` axes."""
    turned = {name for name in axes.matrices if _is_transposed(stage, paired.variables[name])}
    filled = {
        name: stage.ref(variable) if name in turned else in_torchs(stage, variable)
        for name, variable in paired.variables.items()
        if name != axes.rows
    }
    template = paired.pair.jax
    for name in turned:
        template = _with_transposed(template, name)
    layouts = [torchs(result.rank) for result in paired.operation.results]
    follows = None
    if axes.rows is not None:
        value: Value = paired.variables[axes.rows]
        layouts = [rows_first(stage, value)]
        filled[axes.rows] = stage.need(value, layouts[0])
        follows = value if layouts[0] == stage.layout(value) else None
    give(stage, paired, filled, layouts, template=template, follows=follows)


def _is_transposed(stage: LoweringContext, value: Value) -> bool:
    layout = stage.layout(value)
    return layout.order == (1, 0) and layout.folded is None


def _with_transposed(template: str, name: str) -> str:
    """Toggle ``.T`` on a matrix in a template, for a matrix that is stored transposed."""
    return re.sub(rf"\b{name}\b(\.T)?", lambda found: name if found[1] else f"{name}.T", template)


def rows_first(stage: LoweringContext, value: Value) -> Layout:
    """Return a value's layout with torch's last axis moved to the end, as a linear layer needs it."""
    layout = stage.layout(value)
    order = tuple(dim for dim in layout.order if dim != value.rank - 1)
    folded = layout.folded
    if folded is not None and folded.axis == value.rank - 1:
        folded = None
    return replace(layout, order=(*order, value.rank - 1), folded=folded) if value.rank else layout
