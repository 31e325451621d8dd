"""Iteration counts of the loops around a module's call, and their origins in the source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.ir.graph import Graph, LayerCall, each_step
from port.translation.ir.module_calls import ScopeEnter
from port.translation.ir.number import ROUNDS, KnownNumber, rounds_said
from port.translation.ir.origin import AttributeOf, LiteralAt, said

from .origins_seen import graph_of

X = torch.zeros(5, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.again = 3

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.again):
            x = self.fc(x)
        return x


class Nested(nn.Module):
    """A loop in a loop, and one whose count is a variable."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.head, self.depth, self.more = Block(), nn.Linear(4, 4), 2, 1

    def refined(self, x: Tensor, times: int) -> Tensor:
        for i in range(times):
            x = self.head(x) + i
        return x

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.depth):
            x = self.block(x)
        for _ in range(2):
            x = x + 1
        return self.refined(x, self.depth + self.more)


def rounds(graph: Graph, what: str) -> list[list[tuple[float, str]]]:
    """The iteration counts of the loops around each call of a module, innermost first."""
    return [
        [(known.value, said(known.origin)) for path, known in step.numbers.items() if path[0] == ROUNDS]
        for step in each_step(graph.steps)
        if isinstance(step, LayerCall | ScopeEnter) and step.path == what
    ]


@pytest.mark.sweep
def test_each_loop_around_a_call() -> None:
    for _ in range(1):  # a loop of whoever captures the module is none of its own
        graph = graph_of(Nested(), X)
    assert rounds(graph, "block") == [[(2, "self.depth")]] * 2
    assert rounds(graph, "block.fc") == [[(3, "self.block.again"), (2, "self.depth")]] * 6
    assert rounds(graph, "head") == [[(3, "self.depth + self.more")]] * 3
    assert rounds(graph, "") == [[], []]  # its own call, and that of its other method


class Otherwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.depth = nn.Linear(4, 4), 3

    def forward(self, x: Tensor) -> Tensor:
        for i in range(1, self.depth):  # of which the number of rounds is not its own
            x = self.head(x) + i
        for _ in range(2):
            x = x * 2
        else:
            x = self.head(x)
        return x


def test_what_is_no_number_of_rounds() -> None:
    assert rounds(graph_of(Otherwise(), X), "head") == [[], [], []]


A, B, C = AttributeOf("", "depth"), AttributeOf("", "width"), LiteralAt(4)


def numbers(*origins: Any, count: int = 4) -> dict[Any, KnownNumber]:
    known = {(ROUNDS, place): KnownNumber(count, origin) for place, origin in enumerate(origins)}
    return {("size", 0): KnownNumber(count, C), **known}


@pytest.mark.parametrize(
    ("several", "count", "origin"),
    [
        ([numbers(A, B)], 4, A),
        ([numbers(A, B)], 5, None),
        ([numbers(A, B), numbers(B)], 4, B),
        ([numbers(A), numbers(B)], 4, None),
        ([numbers(A), {}], 4, A),  # a step of torch's own
        ([{}, numbers()], 4, None),
        ([], 4, None),
    ],
)
def test_the_loop_that_all_steps_stand_in(several: list[Any], count: int, origin: Any) -> None:
    known = rounds_said(several, count)
    assert (None if known is None else known.origin) == origin
