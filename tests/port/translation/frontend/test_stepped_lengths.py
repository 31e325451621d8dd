"""Lengths that a module's code loops over are found by running it at another length."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.stepped_lengths import looped_lengths, short_sizes
from port.translation.frontend.trials import Trials

from ..loops import MODELS, Translator


class Whole(nn.Module):
    """Its layer loops over time internally."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.rnn(x)[0]
        return out


class Masked(nn.Module):
    """Two inputs that must have equal lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(5, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 4)
        for x_t, mask_t in zip(x.unbind(1), mask.unbind(1), strict=True):
            h = torch.where(mask_t[:, None] > 0, self.cell(x_t, h), h)
        return h


def walked(module: nn.Module, *args: Tensor) -> list[tuple[tuple[int, int], ...]]:
    trials = Trials(module, args, {}, kept_layers(module))
    return [length.axes for length in looped_lengths(trials, free_lengths(trials))]


@pytest.mark.parametrize("name", ["by hand", "two layers", "called", "selective scan"])
def test_the_axis_of_time(name: str) -> None:
    model = MODELS[name]
    assert walked(model.made(), torch.randn(model.shape)) == [((0, model.time),)]


def test_a_batch_as_long_as_time_is_told_from_it() -> None:
    assert walked(MODELS["gated"].made(), torch.randn(6, 6, 3)) == [((0, 1),)]


def test_axes_that_go_together() -> None:
    assert walked(Masked(), torch.randn(2, 7, 5), torch.randn(2, 7)) == [((0, 1), (1, 1))]


def test_no_axis() -> None:
    assert walked(MODELS["decoder"].made(), torch.randn(9, 5)) == []
    assert walked(Whole(), torch.randn(2, 6, 3)) == []


@pytest.mark.sweep
def test_every_length_has_short_sizes_of_its_own() -> None:
    module, args = Translator(), (torch.randn(2, 80, 3), torch.randn(2, 90, 5))
    free = [length for length in free_lengths(Trials(module, args, {})) if length.axes[0][1] == 1]
    found = short_sizes(Trials(module, args, {}), free)
    assert found is not None
    sizes = [tuple(at[length.axes[0]] for at in found) for length in free]
    assert len({*sizes}) == 2
    assert max(map(max, sizes)) < 10
