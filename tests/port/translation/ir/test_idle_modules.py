"""Identities are found where another instance of the class has a real module."""

from __future__ import annotations

from torch import Tensor, nn

from port.translation.ir.idle_modules import idle_modules


class Block(nn.Module):
    def __init__(self, width_in: int, width: int, *, empty: bool) -> None:
        super().__init__()
        nothing = nn.Sequential() if empty else nn.Identity()
        self.shortcut = nothing if width_in == width else nn.Linear(width_in, width)
        self.drop = nn.Identity()
        # Where the other is a function in JAX, there is no attribute to call.
        self.act = nn.Identity() if width_in == width else nn.ReLU()
        self.rest = nn.Sequential(nn.Identity(), nn.Linear(width_in, width))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(x) + self.shortcut(x)


def test_those_that_stand_for_another() -> None:
    for empty in (False, True):
        net = nn.Sequential(Block(4, 4, empty=empty), Block(4, 6, empty=empty), Block(6, 6, empty=empty))
        assert idle_modules(net) == {"0.shortcut", "2.shortcut"}
        assert idle_modules(Block(4, 4, empty=empty)) == set()


def test_one_that_stands_at_two_paths_is_none() -> None:
    first, second, third = (Block(4, width, empty=False) for width in (4, 4, 6))
    second.shortcut = first.shortcut
    assert idle_modules(nn.Sequential(first, second, third)) == set()
