"""Posing: nodes in the order of their calls, those that are given the same, and the names of tied tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from flax import nnx

from port.mapping import Rules
from port.mapping.renaming import Renaming
from port.matching.activations import torch_activations
from port.matching.posing import grouped_by_input, posed, with_tied
from port.matching.proposing import proposed
from port.matching.sides import both_sides

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning"),
]


class Net(torch.nn.Module):
    """The layers are held in another order than they are called in; the first two are given the same."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.right, self.left = (torch.nn.Linear(4, 4) for _ in range(3))
        self.head = torch.nn.Linear(4, 4, bias=False)
        self.last.weight = self.head.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.last(torch.tanh(self.left(x)) + self.right(x)))


class NnxNet(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.c, self.b, self.a = (nnx.Linear(4, 4, rngs=rngs) for _ in range(3))
        self.d = nnx.Linear(4, 4, use_bias=False, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.d(self.c(nnx.tanh(self.a(x)) + self.b(x)))


def test_nodes_are_in_the_order_of_their_calls() -> None:
    sides = both_sides(Net(), NnxNet(), torch.rand(3, 4), None, None, None)
    shown = torch_activations(sides.run)
    guides = sides.torch.guide, sides.flax.guide
    problem = posed(sides, *guides, shown, Rules())
    assert [node[0].path for node in problem.torch] == ["left", "right", "last"]
    assert [node[0].path for node in problem.flax] == ["a", "b", "c", "d"]
    alike = grouped_by_input(problem.torch, shown)
    assert alike[problem.torch[0]] == alike[problem.torch[1]] != alike[problem.torch[2]]
    # Flax holds apart what is tied in torch: its layer takes torch's under the later name.
    state = proposed(problem, Renaming(), alike)
    more, decided = with_tied(problem, state, sides, *guides)
    head = problem.flax[3]
    assert head not in state.decisions and decided.torch(head) is not None
    assert decided.torch(head)[0].names == {"weight": "head.weight"} and len(more.torch) == 4  # type: ignore[index]
