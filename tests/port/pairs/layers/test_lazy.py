"""torch's lazy layers: refused before they have run, their plain selves afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from port.errors import NoPair
from port.pairs import twin_pair
from port.pairs.layers.lazy import NAMES


def make(name: str) -> Any:
    sizes = {"Linear": (4,), "Conv": (4, 2), "ConvTranspose": (4, 2)}.get(name.rstrip("123d"), ())
    return getattr(nn, f"Lazy{name}")(*sizes)


def test_torchs_lazy_layers_are_all_there() -> None:
    assert {f"Lazy{name}" for name in NAMES} == {name for name in dir(nn) if name.startswith("Lazy")}


@pytest.mark.parametrize("name", NAMES)
def test_a_lazy_layer_is_refused_until_it_has_run(name: str) -> None:
    layer = make(name)
    with pytest.raises(NoPair, match=f"Lazy{name}.*until it is run"):
        twin_pair(layer)
    spatial = int(name[-2]) if name[-1] == "d" else 0
    layer(torch.randn(2, 3, *(5,) * spatial))
    assert twin_pair(layer).torch == f"torch.nn.{name}"
