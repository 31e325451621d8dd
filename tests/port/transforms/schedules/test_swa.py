"""SWALR beside torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch.optim.swa_utils import SWALR

from port import transforms
from port.errors import UnknownChoice


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 6, 13])
def test_every_step_is_torchs(epochs: int, strategy: Any, torch_rates: Any, rates: Any, off: Any) -> None:
    want = torch_rates(lambda optimizer: SWALR(optimizer, 0.05, epochs, strategy), 20)
    got = rates(transforms.swa_lr(0.3, 0.05, epochs, strategy), 20)
    assert got.dtype == np.float64
    assert off(got, want) < 1e-14
    assert epochs == 0 or off(got[:-1], want[1:]) > 1e-3
    # The planted fault: the other way of annealing, where there is a way.
    if epochs > 1:
        other = "linear" if strategy == "cos" else "cos"
        assert off(rates(transforms.swa_lr(0.3, 0.05, epochs, other), 20), want) > 1e-3


def test_an_unknown_strategy() -> None:
    with pytest.raises(UnknownChoice, match="anneal_strategy 'cosine'"):
        transforms.swa_lr(0.1, 0.2, anneal_strategy="cosine")
