"""All that a module reaches, with the way to it."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

from port.parity.sides.reachable import reached, registered

TABLE = torch.randn(3)


class Everywhere(nn.Module):
    """Tensors wherever one can be put."""

    shared = nn.Linear(2, 2)

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.items = [torch.randn(1), {"key": torch.randn(1)}, deque([torch.randn(1)])]
        closed = torch.randn(1)
        self.function = lambda x, y=torch.randn(1): x + closed + y  # noqa: B008
        self.partial = functools.partial(max, torch.randn(1), key=torch.randn(1))
        self.fc.register_forward_hook(functools.partial(self._hook, torch.randn(1)))
        self.itself = self

    def _hook(self, own: Tensor, module: nn.Module, args: Any, result: Tensor) -> Tensor:
        return result + own

    def forward(self, x: Tensor) -> Tensor:
        return x + TABLE


def test_the_way_to_each_tensor() -> None:
    module = Everywhere()
    ways = {path for path, thing in reached(module) if isinstance(thing, Tensor)}
    assert ways == {
        ".fc.weight",
        ".fc.bias",
        ".items[0]",
        ".items[1]['key']",
        ".items[2][0]",
        ".function → closed",
        ".function → a default",
        ".partial.args[0]",
        ".partial.keywords['key']",
        ".fc.forward_hook.args[0]",
        ".shared.weight",
        ".shared.bias",
        " → global TABLE",
    }


def test_what_torch_knows() -> None:
    module = Everywhere()
    known = registered(module)
    assert {path for path, thing in reached(module) if isinstance(thing, Tensor) and id(thing) in known} == {
        ".fc.weight",
        ".fc.bias",
    }
    assert id(module) in known and id(module.fc) in known and id(module.shared) not in known
