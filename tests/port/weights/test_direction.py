"""Which way a file of weights was meant to go, told from its names."""

from __future__ import annotations

import numpy as np
import pytest

from port.weights.direction import wrong_way
from port.weights.sources import Source
from port.weights.tensors import TensorInfo


def source(*names: str, is_flax: bool = False) -> Source:
    infos = {name: TensorInfo((2,), np.dtype("float32")) for name in names}
    return Source(infos, lambda name: np.ones(2, np.float32), is_flax=is_flax, origin="w.safetensors")


@pytest.mark.parametrize(
    ("names", "is_flax", "forward", "back"),
    [
        (("params.fc.kernel", "params.fc.bias"), False, True, False),
        (("fc.kernel.value",), False, True, False),
        (("params.cell.weight", "params.cell.bias"), True, True, False),  # port.nn's names: the file says whose it is
        (("params.fc.kernel", "params.norm.weight", "buffers.norm.running_mean"), False, True, False),
        (("params.fc.weight", "params.fc.bias"), False, False, True),  # a torch model may have a part named params
        (("fc.weight", "fc.bias"), False, False, True),
        (("norm.running_mean",), False, False, True),
        (("fc.weight", "scale"), False, False, False),  # a parameter of one's own
        (("a", "b.bias"), False, False, False),
    ],
)
def test_the_way_is_told_where_names_tell_it(names: tuple[str, ...], is_flax: bool, forward: bool, back: bool) -> None:
    told = {reverse: wrong_way(source(*names, is_flax=is_flax), reverse=reverse) for reverse in (False, True)}
    assert {reverse: line is not None for reverse, line in told.items()} == {False: forward, True: back}
    assert all(line.startswith("w.safetensors: ") and "did you mean" in line for line in told.values() if line)
