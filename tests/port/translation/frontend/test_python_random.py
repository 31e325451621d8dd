"""Results that depend on Python's or numpy's random numbers are refused; draws without an effect are translated."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import port
from port.errors import NoPair
from port.translation.frontend.python_random import states

pytestmark = pytest.mark.filterwarnings("ignore")


class Dropping(nn.Module):
    """LayerDrop, as it is often written."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def drawn(self) -> float:
        return random.uniform(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            skipped = self.drawn() < 0.5
            if self.training and skipped:
                continue
            x = x + layer(x).tanh()
        return x


class ByNumpy(Dropping):
    def drawn(self) -> float:
        return float(np.random.rand())  # noqa: NPY002


class Rarely(Dropping):
    """Skips a layer once in a hundred times."""

    def drawn(self) -> float:
        return random.random() + 0.49


class RarelyByNumpy(Dropping):
    def drawn(self) -> float:
        return float(np.random.uniform(0, 1)) + 0.49  # noqa: NPY002


class Own(Dropping):
    """Holds its generator: each copy starts from the same state."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = random.Random(0)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[0](x) * self.generator.random()


class OwnOfNumpy(Own):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)


class Unused(Dropping):
    """Draws a number without using it, as for an occasional line of log."""

    def forward(self, x: Tensor) -> Tensor:
        if self.drawn() < 0:
            x = x * 2
        return self.layers[0](x)


@pytest.mark.parametrize(
    ("build", "line"),
    [(Dropping, "random.uniform(0, 1)"), (ByNumpy, "np.random.rand()")],
)
@pytest.mark.sweep
def test_what_depends_on_them_is_refused(build: type[nn.Module], line: str) -> None:
    before = states()
    with pytest.raises(NoPair, match="depends on numbers that Python or numpy draws") as error:
        port.translate(build(), torch.randn(3, 6))
    file, number, _ = str(error.value).split(":", 2)
    with open(file) as source:
        assert line in source.readlines()[int(number) - 1]
    assert states() == before, "the next numbers are those that they would have been"


@pytest.mark.parametrize("build", [Rarely, RarelyByNumpy])
@pytest.mark.sweep
def test_what_is_seldom_skipped_is_refused(build: type[nn.Module]) -> None:
    with pytest.raises(NoPair, match="depends on numbers that Python or numpy draws"):
        port.translate(build(), torch.randn(3, 6))


@pytest.mark.parametrize("build", [Own, OwnOfNumpy])
@pytest.mark.sweep
def test_a_generator_that_the_module_holds_is_seen(build: type[nn.Module]) -> None:
    with pytest.raises(NoPair, match=f"{build.__name__} depends on numbers that Python or numpy draws"):
        port.translate(build(), torch.randn(3, 6))


def test_what_only_draws_them_is_translated() -> None:
    translation = port.translate(Unused(), torch.randn(3, 6))
    assert translation.proof.agrees, str(translation.proof)
