"""Trial runs on fake tensors accept the same lengths as real runs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.shape_runs import ShapeRuns
from port.translation.frontend.trials import Trials


class Words(nn.Module):
    """Looks positions up: only the table's end limits their number."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(11, 4), nn.Embedding(9, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.words(ids) + self.positions(torch.arange(ids.shape[1]))


class Chosen(nn.Module):
    """Keeps as many rows as its mask selects, and pairs them."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x[mask].view(-1, 2, x.shape[-1])


class Asking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[: int(x.abs().max()) + 1].view(-1, 6) if x.mean() > -100 else x


def test_an_index_behind_a_table_is_seen() -> None:
    trials = Trials(Words(), (torch.randint(11, (2, 6)),), {})
    assert not trials.need_numbers
    assert trials.runs({(0, 1): 9})
    assert not trials.runs({(0, 1): 10})


def test_a_module_on_the_meta_device_is_run_with_indices() -> None:
    with torch.device("meta"):
        module = Words()
    trials = Trials(module, (torch.randint(11, (2, 6)),), {})
    assert not trials.need_numbers
    assert [trials.runs({(0, 1): size}) for size in (9, 10)] == [True, False]
    assert module.words.weight.is_meta
    with pytest.raises(IndexError):
        ShapeRuns(module)((torch.full((2, 6), 11),), {})


def test_what_a_mask_leaves_is_seen() -> None:
    mask = torch.tensor([True, False, True, True, False, True])
    given = (torch.randn(6, 3), mask), {}
    trials, with_numbers = Trials(Chosen(), *given), Trials(Chosen(), *given)
    with_numbers.need_numbers = True
    assert not trials.need_numbers
    sizes = [{(0, 0): size, (1, 0): size} for size in range(2, 10)]
    runs = [trials.runs(at) for at in sizes]
    assert runs == [with_numbers.runs(at) for at in sizes]
    assert {*runs} == {True, False}


def test_who_asks_for_numbers_has_them() -> None:
    trials = Trials(Asking(), (torch.rand(3, 6),), {})
    assert trials.need_numbers
    assert trials.runs({(0, 0): 5})


@pytest.mark.parametrize("size", [5, 6])
def test_layers_count_as_one(size: int) -> None:
    model = nn.Sequential(nn.LSTM(3, 4), nn.Identity())
    steps = Trials(model[:1], (torch.randn(size, 2, 3),), {}, {"0": model[0]}).steps({})
    assert steps is not None and steps.total() == steps["0"] == 1


def test_the_module_stays_as_it_is() -> None:
    module = nn.BatchNorm1d(3).train()
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    before = dict(vars(module))
    assert Trials(module, (torch.randn(4, 3),), {}).runs({(0, 0): 7})
    assert all(torch.equal(tensor, state[name]) for name, tensor in module.state_dict().items())
    assert vars(module) == before and module.training
