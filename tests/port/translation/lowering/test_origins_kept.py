"""Numbers keep their origins through lowering."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from port.translation.both_modes import both_runs
from port.translation.ir import syntax
from port.translation.ir.lowered import Assignment, LoweredGraph, each_lowered
from port.translation.ir.origin import said
from port.translation.ir.printer import print_lowered


class Attention(nn.Module):
    def __init__(self, dim: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        q, k = self.qkv(x).reshape(B, N, 2, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = (q @ k.transpose(-2, -1)) * self.scale
        return y[:, : self.heads - 1, 1:] / math.sqrt(5)


def lowered() -> LoweredGraph:
    return both_runs(Attention(), torch.randn(2, 7, 12), None, free=(), check=False).runs[True]


def test_what_is_written_knows_where_its_numbers_come_from() -> None:
    run = lowered()
    known = {
        (node.value, said(node.origin))
        for step in each_lowered(run.steps)
        if isinstance(step, Assignment)
        for node in syntax.walk(step.expression)
        if isinstance(node, syntax.Const) and node.origin is not None
    }
    assert {(3, "self.heads"), (0.5, "self.scale")} <= known


def test_the_printed_run_shows_them() -> None:
    text = print_lowered(lowered())
    assert "3 = self.heads" in text
    assert "0.5 = self.scale" in text
