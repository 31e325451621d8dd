"""Lengths that grow into long formulas are given up within a second, while torch.export traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor, nn

import port
from port.errors import NoPair
from port.translation.both_modes import both_runs
from port.translation.frontend.export import traced
from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.long_formulas import LongLength
from port.translation.frontend.trials import Trials

from ..lengths_tried import silently_wrong
from ..zoo.example import floats


class Padded(nn.Module):
    """Pads an image to whole windows, then halves it."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window, self.conv = window, nn.Conv2d(3, 3, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        height, width = (-size % self.window for size in x.shape[2:])
        return self.conv(nn.functional.pad(x, (0, width, 0, height)))


def grows(stages: int) -> nn.Sequential:
    return nn.Sequential(*(Padded(window) for window in [6, 10] * (stages // 2)))


@pytest.fixture
def images() -> Tensor:
    return floats(2, 3, 40, 36)


@pytest.mark.sweep
def test_they_are_found_while_torch_traces(images: Tensor) -> None:
    module = grows(8)
    free = free_lengths(Trials(module, (images,), {}))
    assert len(free) == 3
    with pytest.raises(LongLength) as raised:
        traced(module, (images,), {}, training=False, whole=lambda *_: False, free=free)
    assert raised.value.axes == {(0, 2), (0, 3)}


def test_axes_that_are_made_of_the_same_are_found() -> None:
    error = LongLength(["s1 // 3 + s1 % 7"])
    inputs = [SimpleNamespace(shape=("s0", 3, "8*s1")), SimpleNamespace(shape=("s1", "s11"))]
    assert error.found_in(inputs).axes == {(0, 2), (1, 0)}  # type: ignore[arg-type]


@pytest.mark.parametrize("axes", [frozenset({(0, 0)}), frozenset()])
def test_it_ends_whatever_the_length_is_made_of(axes: frozenset[tuple[int, int]], monkeypatch: Any) -> None:
    tried = []

    def both_modes(*args: Any, free: Any, **options: Any) -> Any:
        tried.append(len(free))
        error = LongLength(["u0 + " * 50 + "1"])
        error.axes = axes
        raise error

    monkeypatch.setattr("port.translation.both_modes.both_modes", both_modes)
    with pytest.raises(NoPair, match="depends on the values of a tensor"):
        both_runs(nn.Tanh(), floats(2, 3), {})
    assert tried == sorted({*tried}, reverse=True)
    assert tried[-1] == 0


@pytest.mark.sweep
def test_the_others_stay_free(images: Tensor) -> None:
    module = grows(8)
    translation = port.translate(module, (images,))
    assert translation.lengths.shapes == (("n", 3, 40, 36),)
    assert translation.proof is not None
    assert translation.proof.agrees, str(translation.proof)
    assert not silently_wrong(module, translation, (images,), {})
