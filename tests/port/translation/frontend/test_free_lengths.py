"""Free lengths are found by running the original: each alone, or together where they have to be equal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.free_lengths import FreeLength, free_lengths, other_sizes, several_sizes
from port.translation.frontend.trials import Trials


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean((2, 3))


class Masked(nn.Module):
    """Two inputs with one batch and one length."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if x.shape[:2] != mask.shape:
            raise ValueError("the mask is of other lengths")
        return (x * mask[..., None]).sum(1)


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ x.mT.reshape(x.shape)


class Streaming(nn.Module):
    """One stream at a time, with a state that is kept between calls."""

    state: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] != 1:
            raise ValueError("one stream")
        self.state = torch.cat([self.state, x.mean(1)])[-1:] + self.state
        return x + self.state[:, None]


class Positions(nn.Module):
    """A table with a batch of 1, which is broadcast."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return (x + positions).tanh()


class Windows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (-1, 8)).mean(2)


@pytest.mark.parametrize(
    ("module", "args", "axes"),
    [
        (Convolutions(), (torch.randn(2, 3, 6, 7),), [((0, 0),), ((0, 2),), ((0, 3),)]),
        (Masked(), (torch.randn(2, 5, 4), torch.ones(2, 5)), [((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 2),)]),
        (Square(), (torch.randn(3, 5, 5),), [((0, 0),), ((0, 1), (0, 2))]),
        (Streaming(), (torch.randn(1, 6, 4),), [((0, 1),)]),
        *(
            (Positions(), (torch.randn(batch, 6), torch.randn(1, 6)), [((0, 0),), ((0, 1), (1, 1))])
            for batch in (2, 3, 5, 17)
        ),
        (Windows(), (torch.randn(2, 24, 3),), [((0, 0),), ((0, 1),), ((0, 2),)]),
    ],
    ids=lambda thing: type(thing).__name__ if isinstance(thing, nn.Module) else "",
)
def test_what_goes_alone_and_what_goes_together(module: nn.Module, args: Any, axes: list[Any]) -> None:
    before = {name: value.clone() for name, value in module.state_dict().items()}
    found = free_lengths(Trials(module, args, {}))
    assert [length.axes for length in found] == axes
    trials = Trials(module, args, {})
    assert all(trials.runs(length.at(length.other)) for length in found)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_other_sizes_are_lengths_of_their_own() -> None:
    for size in (1, 2, 7, 64, 224):
        assert size not in other_sizes(size) and min(other_sizes(size)) > 1 and len(other_sizes(size)) >= 3


def test_several_sizes_tell_lengths_apart() -> None:
    trials = Trials(nn.Identity(), (torch.randn(2, 6, 6),), {})
    lengths = [FreeLength(((0, 1),), 6, 7), FreeLength(((0, 2),), 6, 7)]
    found = several_sizes(trials, lengths)
    assert found is not None and len(found) == 3
    numbers = [tuple(sizes[axis] for sizes in found) for axis in ((0, 1), (0, 2))]
    assert numbers[0] != numbers[1] and all(len({*several}) == 3 for several in numbers)
    fixed = Trials(Streaming(), (torch.randn(1, 6, 4),), {})
    assert several_sizes(fixed, [FreeLength(((0, 0),), 1, 2)]) is None
