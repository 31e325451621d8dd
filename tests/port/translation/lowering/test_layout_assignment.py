"""The layout stage: permutations are absorbed where an array may lie so, and written where it may not."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.diagnostics import captured
from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.ir.layout import Folded, Layout, channels_last, torchs
from port.translation.ir.lowered import Assignment, LoweredGraph
from port.translation.lowering.layout_assignment import analyse
from port.translation.lowering.lower_graph import lower_graph


def placed(module: nn.Module, *args: Tensor) -> LoweredGraph:
    """A run in evaluation, placed; 0 transposes are written unless a test says so."""
    graph = captured(module, args, {}, training=False, layers=kept_layers(module), free=free_lengths(module, args, {}))
    return lower_graph(graph, module, analyse({False: graph}, module), training=False)


def transposes(run: LoweredGraph) -> list[str]:
    steps = [step for step in run.steps if isinstance(step, Assignment) and step.is_transpose]
    return [ast.unparse(ast.fix_missing_locations(step.expression)).replace("%", "") for step in steps]


def inputs(run: LoweredGraph) -> list[Layout]:
    return [run.layouts[value] for value in run.graph.inputs]


class Flattened(nn.Module):
    """Its linear layer takes the image as it lies."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)
        self.linear = nn.Linear(3 * 4 * 5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).relu().flatten(1))


def test_a_flatten_is_folded_into_the_linear_layer() -> None:
    run = placed(Flattened(), torch.randn(2, 2, 4, 5))
    assert inputs(run) == [channels_last(4, 1)]
    assert transposes(run) == []
    assert run.folds == {"linear": Folded(1, (3, 4, 5), (1, 2, 0))}


class FlattenedTwice(Flattened):
    """Its linear layer takes two images that lie differently: none of them may be folded into it."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.linear(y.flatten(1)) + self.linear(y.transpose(2, 3).flatten(1))


def test_what_is_flattened_in_two_orders_is_brought_to_torchs() -> None:
    run = placed(FlattenedTwice(), torch.randn(2, 2, 4, 5))
    assert not run.folds
    assert transposes(run)


class Tokens(nn.Module):
    """Patches: the permutation from channels first to channels last is none in JAX."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 2, stride=2)
        self.norm = nn.LayerNorm(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).flatten(2).transpose(1, 2))


class Permuted(nn.Module):
    """Channels go last by hand for the linear layer, and first again for the convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(2, 4, 1)
        self.linear = nn.Linear(4, 4)
        self.after = nn.Conv2d(4, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x).permute(0, 2, 3, 1)
        return self.after(self.linear(x).permute(0, 3, 1, 2)) * 2


@pytest.mark.parametrize("module", [Tokens(), Permuted()], ids=["tokens", "permuted"])
def test_permutations_are_absorbed(module: nn.Module) -> None:
    run = placed(module, torch.randn(2, 2, 4, 6))
    assert inputs(run) == [channels_last(4, 1)]
    text = " ".join(
        ast.unparse(ast.fix_missing_locations(step.expression)) for step in run.steps if isinstance(step, Assignment)
    )
    assert not any(name in text for name in ("transpose", "swapaxes", "moveaxis"))


class Mixed(nn.Module):
    """A reshape that reads across axes which lie apart."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).transpose(1, 2).reshape(x.shape[0], 2, -1)


def test_where_the_elements_order_matters_a_transpose_is_written() -> None:
    run = placed(Mixed(), torch.randn(3, 4, 5))
    assert inputs(run) == [torchs(3)]
    (step,) = [
        step for step in run.steps if isinstance(step, Assignment) and ".reshape(" in ast.unparse(step.expression)
    ]
    text = " ".join(
        ast.unparse(ast.fix_missing_locations(each.expression)) for each in run.steps if isinstance(each, Assignment)
    )
    assert text.count("swapaxes") + text.count("matrix_transpose") == 1
    assert step.place is not None and step.place.file == __file__


class OwnWeight(nn.Module):
    """A matrix of the module's own lies as its only reader wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight)


def test_a_parameter_of_ones_own_is_read_and_not_copied() -> None:
    run = placed(OwnWeight(), torch.randn(2, 3))
    assert transposes(run) == []
    (step,) = [step for step in run.steps if isinstance(step, Assignment)]
    assert "@" in ast.unparse(step.expression)
