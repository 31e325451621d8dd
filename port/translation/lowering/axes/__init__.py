"""Lower an operator in any layout, by its pair's axis specification: one file per kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.pairs.ops.axes import Along, Each, Inserted, Over, Permuted, Product, Reshaped, Spatial, Stretched, Widths
from port.translation.lowering.axes.along import lower_along
from port.translation.lowering.axes.each import lower_each
from port.translation.lowering.axes.in_torchs import lower_in_torchs
from port.translation.lowering.axes.inserted import lower_inserted
from port.translation.lowering.axes.memory import of_memory
from port.translation.lowering.axes.over import lower_over
from port.translation.lowering.axes.permuted import lower_permuted
from port.translation.lowering.axes.product import lower_product
from port.translation.lowering.axes.reshaped import lower_reshaped
from port.translation.lowering.axes.spatial import is_image, lower_spatial
from port.translation.lowering.axes.stretched import lower_stretched
from port.translation.lowering.axes.widths import lower_widths
from port.translation.lowering.paired import Paired

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower(stage: LoweringContext, paired: Paired) -> None:
    """Lower an operator by its pair, in the layout of its operands, or else in torch's."""
    stage.note(*paired.pair.notes)
    itself = paired.variables.get(paired.pair.jax)
    if itself is not None and itself.shape is not None:
        stage.alias(paired.operation.results[0], itself, stage.layout(itself))
        return
    paired = of_memory(stage, paired)
    match paired.pair.axes:
        case Each() if paired.operands:
            lower_each(stage, paired)
        case Along() as axes:
            lower_along(stage, paired, axes)
        case Over() as axes:
            lower_over(stage, paired, axes)
        case Spatial() as axes if is_image(paired.variables, axes):
            lower_spatial(stage, paired, axes)
        case Permuted():
            lower_permuted(stage, paired)
        case Inserted() as axes:
            lower_inserted(stage, paired, axes)
        case Stretched() as axes:
            lower_stretched(stage, paired, axes)
        case Reshaped() as axes:
            lower_reshaped(stage, paired, axes)
        case Widths() as axes:
            lower_widths(stage, paired, axes)
        case Product() as axes:
            lower_product(stage, paired, axes)
        case _:
            lower_in_torchs(stage, paired)
