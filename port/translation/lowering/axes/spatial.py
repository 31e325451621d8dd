"""Operators on images, in a channels-last layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.pairs.ops.axes import Spatial
from port.translation.ir.graph import Value
from port.translation.ir.layout import channels_last
from port.translation.lowering.paired import Paired, give, in_torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def is_image(variables: dict[str, Any], axes: Spatial) -> bool:
    """Whether ``input`` has an image's number of axes."""
    image = variables.get("input")
    return isinstance(image, Value) and image.rank >= (axes.axes or 0) + 1


def lower_spatial(stage: LoweringContext, paired: Paired, axes: Spatial) -> None:
    """Lower an operator whose pair has `Spatial` axes."""
    image: Value = paired.variables["input"]
    spatial = axes.axes or image.rank - 2
    layout = channels_last(image.rank, image.rank - spatial - 1)
    after = spatial if axes.results is None else axes.results
    filled = {name: in_torchs(stage, variable) for name, variable in paired.variables.items() if name != "input"}
    filled["input"] = stage.need(image, layout)
    layouts = [channels_last(result.rank, result.rank - after - 1) for result in paired.operation.results]
    follows = image if stage.layout(image) == layout else None
    give(stage, paired, filled, layouts, template=axes.last, follows=follows)
