"""Moments follow their weight through every move; what depends on the layout works on torch's."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import pytest
import torch

from models.recorded import Recorded, both
from models.recorded import loose as make_loose

LIMIT = 1e-10
LONG = partial(pytest.param, marks=pytest.mark.sweep)


@pytest.fixture(scope="module")
def loose() -> Recorded:
    with jax.enable_x64(True):
        return make_loose()


@pytest.mark.parametrize("start", [0, 30])
@pytest.mark.parametrize(
    "cls", [torch.optim.Adam, torch.optim.Adafactor, *map(LONG, [torch.optim.SGD, torch.optim.Rprop])]
)
def test_moments_follow_their_weight(cls: Any, start: int, loose: Recorded) -> None:
    module = loose.fresh()
    options = {"momentum": 0.9} if cls is torch.optim.SGD else {}
    assert both(loose, module, cls(module.parameters(), lr=1e-2, **options), start=start) <= LIMIT


def test_two_layers_in_one_parameter_may_have_options_of_their_own(loose: Recorded) -> None:
    module = loose.fresh()
    first, others = [module.one], [module.qkv, module.two, module.bias]
    optimizer = torch.optim.Adam([{"params": first, "lr": 0.1}, {"params": others}], lr=1e-3)
    assert both(loose, module, optimizer, start=10) <= LIMIT
