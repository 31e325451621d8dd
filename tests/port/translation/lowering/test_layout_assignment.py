"""Layout assignment: permutations are absorbed into free layouts, and emitted otherwise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.diagnostics import captured
from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.trials import Trials
from port.translation.ir.layout import Folded, Layout, channels_last, torchs
from port.translation.ir.layout_decisions import Layouts
from port.translation.ir.lowered import Assignment, LoweredGraph
from port.translation.ir.syntax import source
from port.translation.lowering.layout_assignment import _Search, analyse
from port.translation.lowering.lower_graph import lower_graph


def lowered(module: nn.Module, *args: Tensor) -> LoweredGraph:
    """A run in evaluation, lowered; 0 transposes are written unless a test says so."""
    graph = captured(
        module, args, {}, training=False, layers=kept_layers(module), free=free_lengths(Trials(module, args, {}))
    )
    return lower_graph(graph, module, analyse({False: graph}, module), training=False)


def transposes(run: LoweredGraph) -> list[str]:
    steps = [step for step in run.steps if isinstance(step, Assignment) and step.is_transpose]
    return [source(step.expression).replace("%", "") for step in steps]


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
    run = lowered(Flattened(), torch.randn(2, 2, 4, 5))
    assert inputs(run) == [channels_last(4, 1)]
    assert transposes(run) == []
    assert run.folds == {"linear": Folded(1, (3, 4, 5), (1, 2, 0))}


class FlattenedTwice(Flattened):
    """Its linear layer takes two images that lie differently: none of them may be folded into it."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.linear(y.flatten(1)) + self.linear(y.transpose(2, 3).flatten(1))


def test_what_is_flattened_in_two_orders_is_brought_to_torchs() -> None:
    run = lowered(FlattenedTwice(), torch.randn(2, 2, 4, 5))
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
    run = lowered(module, torch.randn(2, 2, 4, 6))
    assert inputs(run) == [channels_last(4, 1)]
    text = " ".join(source(step.expression) for step in run.steps if isinstance(step, Assignment))
    assert not any(name in text for name in ("transpose", "swapaxes", "moveaxis"))


class Mixed(nn.Module):
    """A reshape that reads across axes which lie apart."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).transpose(1, 2).reshape(x.shape[0], 2, -1)


def test_where_the_elements_order_matters_a_transpose_is_written() -> None:
    run = lowered(Mixed(), torch.randn(3, 4, 5))
    assert inputs(run) == [torchs(3)]
    (step,) = [step for step in run.steps if isinstance(step, Assignment) and ".reshape(" in source(step.expression)]
    text = " ".join(source(each.expression) for each in run.steps if isinstance(each, Assignment))
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
    run = lowered(OwnWeight(), torch.randn(2, 3))
    assert transposes(run) == []
    (step,) = [step for step in run.steps if isinstance(step, Assignment)]
    assert "@" in source(step.expression)


# %% The analysis


def analysed(module: nn.Module, *args: Tensor) -> tuple[Layouts, LoweredGraph]:
    graph = captured(module, args, {}, training=False, layers=kept_layers(module), free=())
    layouts = analyse({False: graph}, module)
    return layouts, lower_graph(graph, module, layouts, training=False)


@pytest.mark.parametrize(
    ("module", "shape"),
    [(Flattened(), (2, 2, 4, 5)), (FlattenedTwice(), (2, 2, 4, 5)), (Permuted(), (2, 2, 4, 6)), (Mixed(), (3, 4, 5))],
    ids=lambda case: type(case).__name__ if isinstance(case, nn.Module) else "",
)
def test_what_is_counted_is_what_is_written(module: nn.Module, shape: tuple[int, ...]) -> None:
    layouts, run = analysed(module, torch.randn(shape))
    assert layouts.transposes == len(transposes(run))


class TwoSources(nn.Module):
    """Two inputs are added before a convolution: one alone in another order would save nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.conv(x + y)


def test_sources_that_meet_are_decided_together() -> None:
    layouts, run = analysed(TwoSources(), torch.randn(2, 2, 4, 5), torch.randn(2, 2, 4, 5))
    assert inputs(run) == [channels_last(4, 1)] * 2 and transposes(run) == []
    one, other = layouts.decisions
    assert one.saves == 1 and one.elements == 80 and other.along_with is one.value


class Weighed(nn.Module):
    """A large image and a small one in conflict: torch's order is wanted of what is read more."""

    def __init__(self, reads: int) -> None:
        super().__init__()
        self.conv, self.reads = nn.Conv2d(2, 3, 1), reads

    def forward(self, x: Tensor) -> list[Tensor]:
        flat = [(x * k).sin().reshape(2, -1) for k in range(2, 2 + self.reads)]
        return [self.conv(x), *flat]


@pytest.mark.parametrize(("reads", "order"), [(0, (0, 2, 3, 1)), (2, (0, 1, 2, 3)), (3, (0, 1, 2, 3))])
def test_the_order_that_moves_fewer_elements_is_chosen(reads: int, order: tuple[int, ...]) -> None:
    _, run = analysed(Weighed(reads), torch.randn(2, 2, 4, 5))
    assert inputs(run) == [Layout(order)]
    assert len(transposes(run)) == bool(reads)


def test_it_ends_where_nothing_costs_less() -> None:
    """From what was found, no source that is asked for another layout would cost less in it."""
    module = FlattenedTwice()
    args = (torch.randn(2, 2, 4, 5),)
    graph = captured(module, args, {}, training=False, layers=kept_layers(module), free=())
    search = _Search({False: graph}, module, {})
    costs = [search.cost]
    while search.sweep():
        costs.append(search.cost)
    assert costs == sorted(costs, reverse=True) and len(set(costs)) == len(costs)
    assert not search.sweep()


@pytest.mark.parametrize("module", [TwoSources(), Weighed(2)], ids=["two sources", "weighed"])
def test_what_a_move_has_changed_is_undone(module: nn.Module) -> None:
    args = (torch.randn(2, 2, 4, 5),) * (2 if isinstance(module, TwoSources) else 1)
    graph = captured(module, args, {}, training=False, layers=kept_layers(module), free=())
    search = _Search({False: graph}, module, {})
    before, layouts = search.cost, dict(search.trials[0].layouts)
    undo = search._move(graph.inputs[0].name, channels_last(4, 1), along=True)
    assert {value: search.trials[0].layout(value) for value in layouts} != layouts
    search._undo(undo)
    assert search.cost == before and search.chosen == {}
    assert {value: search.trials[0].layout(value) for value in layouts} == layouts
    assert search.trials[0].rerun(0).asks.keys() == search.trials[0].needs[0].asks.keys()
