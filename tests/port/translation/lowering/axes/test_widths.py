"""Padding: the widths are reordered with the axes, so that nothing is transposed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import port
from port.translation.frontend.diagnostics import captured
from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.trials import Trials
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import Assignment
from port.translation.lowering.axes import widths as padding
from port.translation.lowering.layout_assignment import analyse
from port.translation.lowering.lower_graph import lower_graph

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


def of_numpy(rank: int, widths: list[int]) -> list[tuple[int, ...]]:
    pairs = [tuple(widths[2 * place : 2 * place + 2]) for place in range(len(widths) // 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_widths_in_another_order_of_axes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    layout = Layout(tuple(data.draw(st.permutations(range(rank)))))
    widths = data.draw(st.lists(st.integers(0, 3), max_size=2 * rank).filter(lambda found: len(found) % 2 == 0))
    tensor = np.arange(np.prod(range(2, rank + 2))).reshape(range(2, rank + 2)) + 1
    theirs = np.pad(tensor, of_numpy(rank, widths))
    ours = np.pad(tensor.transpose(layout.order), of_numpy(rank, padding.in_order(widths, layout)))
    assert np.array_equal(ours, theirs.transpose(layout.order))


def test_widths_as_short_as_torch_would_be_told_them() -> None:
    assert padding.in_order([1, 2], torchs(4)) == [1, 2]
    assert padding.in_order([0, 0, 1, 2], Layout((0, 2, 3, 1))) == [0, 0, 0, 0, 1, 2]
    assert padding.in_order([0, 0], torchs(2)) == []


class Padded(nn.Module):
    """Between convolutions: pixels, channels, another way than zeros, and other numbers on each side."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 3, 3), nn.Conv2d(6, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(F.pad(x, (1, 0, 2, 1)))
        x = F.pad(x, (2, 1, 0, 3), mode="reflect")
        x = F.pad(x, (0, 0, 0, 1, 1, 2), value=0.5)
        return self.two(x).relu()


class Shortcut(nn.Module):
    """A narrower image beside a wider one, with channels of zeros, as a ResNet without parameters there has it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        added = (y.shape[1] - x.shape[1]) // 2
        return y + F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, added, added))


class Flat(nn.Module):
    """What is padded is a flattened image, in front of its first number."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(2, 3, 1), nn.Linear(3 * 4 * 5 + 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.pad(self.conv(x).flatten(1), (1, 2)))


IMAGE = torch.randn(2, 2, 4, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("cls", [Padded, Shortcut])
def test_nothing_is_transposed_for_it(cls: type[nn.Module]) -> None:
    module = cls()
    graph = captured(
        module,
        (IMAGE,),
        {},
        training=False,
        layers=kept_layers(module),
        free=free_lengths(Trials(module, (IMAGE,), {})),
    )
    run = lower_graph(graph, module, analyse({False: graph}, module), training=False)
    assert not any(isinstance(step, Assignment) and step.is_transpose for step in run.steps)
    assert [run.layouts[value].order for value in run.graph.inputs] == [(0, 2, 3, 1)]


@pytest.mark.sweep
@pytest.mark.parametrize("cls", [Padded, Shortcut, Flat])
def test_both_sides_agree(cls: type[nn.Module]) -> None:
    proof = port.translate(cls(), IMAGE).proof
    assert proof is not None and proof.agrees, str(proof)


@pytest.mark.sweep
def test_widths_that_stay_as_they_are_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "in_order", lambda widths, layout: widths)
    proof = port.translate(Padded(), IMAGE).proof
    assert proof is not None and not proof.agrees


class ToFours(nn.Module):
    """A length that is padded to a multiple of four, whatever it is."""

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 0, (4 - x.shape[1] % 4) % 4), value=0.5).sin()


@pytest.mark.sweep
def test_padding_by_a_length_reads_as_a_list_of_ends() -> None:
    translation = port.translate(ToFours(), torch.randn(2, 6, 3))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    ends = "[(0, 0, 0), (0, (4 - x.shape[1] % 4) % 4, 0), (0, 0, 0)]"
    assert ends in translation.source and "t" in translation.lengths.names


class Windows(nn.Module):
    """Windows of an image that is padded to them: no formula says its views, so numbers do."""

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        x = F.pad(x, (0, 0, 0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))
        x = x.unflatten(1, (-1, 4)).unflatten(3, (-1, 4)).transpose(2, 3)
        x = x.softmax(3).transpose(2, 3).reshape(batch, x.shape[1] * 4, -1, channels)
        return x[:, :height, :width]


@pytest.mark.sweep
def test_what_no_length_says_is_fixed_and_right() -> None:
    translation = port.translate(Windows(), torch.randn(2, 10, 9, 6))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert all(len(condition) <= 80 for condition in translation.lengths.conditions)
