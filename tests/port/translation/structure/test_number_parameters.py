"""Numbers passed to a module are parameters of its call, as in the original."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from port.translation.verify.proving import prove
from tests.port.translation.agreeing import translated
from tests.port.translation.window_nets import Shifted


@pytest.mark.sweep
def test_a_module_that_is_called_with_several_numbers_is_one_class() -> None:
    torch.manual_seed(0)
    module, x = Shifted(4, 3), torch.randn(2, 5, 4)
    made = translated(module, x, construct=lambda: Shifted(4, 3), static=True, sizes_limit=0.0)
    assert made.source.count("class Shifting") == 1
    assert "def __call__(self, x: jax.Array, by: int, scale: float) -> jax.Array:" in made.source
    assert "x = self.one(x, 1, 1.0) + self.one(x, 2, 0.5)" in made.source
    assert "return self.other(x, self.shift, 1.0)" in made.source
    planted = made.source.replace("self.one(x, 2, 0.5)", "self.one(x, 1, 0.5)")
    assert planted != made.source
    assert not prove(module, replace(made, source=planted), (x,), {}).agrees
