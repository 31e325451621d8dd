"""Names from Python's and numpy's modules are kept in constructors."""

from __future__ import annotations

import math as mathematics
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from port.translation.verify.proving import prove
from tests.port.translation.agreeing import translated


class Dropping(nn.Module):
    """Rates of numpy's, one for each layer."""

    def __init__(self, width: int, depth: int, last: float) -> None:
        super().__init__()
        rates = np.linspace(0.0, last, depth).tolist()
        self.drops = nn.ModuleList([nn.Dropout(rate) for rate in rates])
        self.linear = nn.Linear(width, width * mathematics.gcd(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        for drop in self.drops:
            x = drop(x)
        return self.linear(x)


class DrawingWithNumpy(nn.Module):
    """How deep it is, numpy draws."""

    def __init__(self, width: int) -> None:
        super().__init__()
        depth = int(np.random.RandomState(0).randint(2, 5))
        self.layers = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.mark.sweep
def test_what_numpy_works_out_is_worked_out_by_numpy() -> None:
    torch.manual_seed(0)
    construct = partial(Dropping, 4, 3, 0.5)
    module, x = construct(), torch.randn(2, 4)
    made = translated(module, x, construct=construct, static=True, sizes_limit=0.0)
    assert made.elsewhere is not None and made.elsewhere.keeps_constructors
    assert "import numpy as np\n" in made.source
    assert "import math as mathematics\n" in made.source
    assert "rates = np.linspace(0.0, last, depth).tolist()" in made.source
    assert made.proof_at(partial(Dropping, 4, 5, 0.25)).agrees
    planted = made.source.replace("np.linspace(0.0, last, depth)", "np.linspace(last, 0.0, depth)")
    assert planted != made.source
    assert not prove(module, replace(made, source=planted), (x,), {}).agrees


def test_what_numpy_draws_is_not() -> None:
    torch.manual_seed(0)
    made = translated(
        DrawingWithNumpy(4), torch.randn(2, 4), construct=partial(DrawingWithNumpy, 4), static=True, sizes_limit=0.0
    )
    assert "RandomState" not in made.source and "np." not in made.source.replace("jnp.", "")
    assert made.elsewhere is not None and not made.elsewhere.keeps_constructors
