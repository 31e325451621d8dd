"""How what one side's layer gives reads in the other's layout."""

from __future__ import annotations

import numpy as np

from port.mapping import Layer
from port.parity.compare.layer_matching import Matched
from port.parity.sides.inputs import AS_IT_IS


def test_an_axis_of_layers_that_one_side_alone_has_is_no_difference() -> None:
    match = Matched(Layer("lstm", "torch.nn.LSTM"), Layer("lstm", "my.LSTM"))
    state = np.arange(6.0).reshape(2, 3)
    assert match.in_torchs(state, (1, 2, 3), AS_IT_IS, place=None).shape == (1, 2, 3)
    assert match.in_torchs(state[None], (2, 3), AS_IT_IS, place=None).shape == (2, 3)
    # Any other axis is one: (N, 1) for (N,) is broadcast to (N, N) by the next sum.
    assert match.in_torchs(state[:, :1], (2,), AS_IT_IS, place=None).shape == (2, 1)
