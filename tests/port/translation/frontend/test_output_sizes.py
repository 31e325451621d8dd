"""The spatial part of an output size, and the origins of its numbers."""

from __future__ import annotations

import pytest
from torch import nn

from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.translation.frontend.output_sizes import with_spatial_output_sizes
from port.translation.ir.graph import Graph, LayerCall, Value
from port.translation.ir.number import KnownNumber
from port.translation.ir.origin import AttributeOf

X, Y = Value("x", (2, 3, 5, 7), "float32"), Value("y", (2, 4, 10, 14), "float32")
HIGH, WIDE = KnownNumber(10, AttributeOf("", "high")), KnownNumber(14, AttributeOf("", "wide"))


@pytest.mark.parametrize(("size", "left_out"), [([10, 14], 0), ([4, 10, 14], 1), ([2, 4, 10, 14], 2)])
@pytest.mark.parametrize("by_name", [False, True])
def test_the_numbers_that_stay_keep_their_origins(size: list[int], left_out: int, by_name: bool) -> None:
    root = nn.Sequential(nn.ConvTranspose2d(3, 4, 2, stride=2))
    said: str | int = "output_size" if by_name else 1
    numbers = {(said, left_out): HIGH, (said, left_out + 1): WIDE}
    numbers |= {(said, place): KnownNumber(size[place], AttributeOf("", "other")) for place in range(left_out)}
    arguments, keywords = ((X,), {"output_size": size}) if by_name else ((X, size), {})
    call = LayerCall("0", root[0], arguments, keywords, Y, None, numbers=numbers)
    with output_sizes_at_calls():
        (step,) = with_spatial_output_sizes(root, Graph((X,), {}, {}, [call])).steps
    assert isinstance(step, LayerCall) and step.arguments == (X,) and step.keywords == {"output_size": (10, 14)}
    assert step.numbers == {("output_size", 0): HIGH, ("output_size", 1): WIDE}
