"""torch_linspace gives torch's numbers to the last bit, where numpy's are others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from port.nn import torch_linspace


@pytest.mark.parametrize(("start", "end"), [(0, 0.1), (0, 0.3), (0.1, 0.7), (1, 0), (-1, 1), (0, 1)])
def test_each_number_is_torchs(start: float, end: float) -> None:
    numpys = 0
    for steps in (*range(40), 100, 257):
        expected = torch.linspace(start, end, steps).numpy()
        assert torch_linspace(start, end, steps).dtype == expected.dtype
        np.testing.assert_array_equal(torch_linspace(start, end, steps), expected)
        numpys += not np.array_equal(np.linspace(start, end, steps, dtype=np.float32), expected)
    assert numpys, "it would not be needed"
