"""Copies are put into float64 and without dropout, and step as the original does; LBFGS's too."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from port.errors import UsageError
from port.scripts.writing.clipping import clipping_of
from port.scripts.writing.replaying import (
    all_doubled,
    check_is_mean_of_parts,
    copied,
    dropouts_in,
    is_replayed,
    put_into_float64,
    switch_dropout_off,
)


def test_models_and_what_their_optimizers_remember() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.Dropout(0.0))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    put_into_float64([model], [optimizer])
    state = optimizer.state[model[0].weight]
    assert model[0].weight.dtype == state["exp_avg"].dtype == torch.float64
    assert len(list(dropouts_in(model))) == 1
    switch_dropout_off(model)
    assert not list(dropouts_in(model))
    assert {one.dtype for one in all_doubled({"x": torch.ones(1), "y": torch.ones(1).long()}).values()} == {
        torch.float64,
        torch.int64,
    }


def test_a_copy_of_lbfgs_steps() -> None:
    model = nn.Linear(2, 1)
    pair = copied((model, torch.optim.LBFGS(model.parameters(), max_iter=2)))

    def closure() -> torch.Tensor:
        pair[1].zero_grad()
        loss = pair[0](torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    before = pair[0].weight.clone()
    pair[1].step(closure)
    assert not torch.equal(pair[0].weight, before) and torch.equal(model.weight, before)


def test_a_loss_is_the_observed_one() -> None:
    assert is_replayed(100.005, 100.0) and not is_replayed(100.02, 100.0) and is_replayed(0.00005, 0.0)


def test_clipping_in_words_and_in_torch() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3.0, -4.0])
    by_norm = clipping_of({"function": "clip_grad_norm_", "arguments": [1.0], "named": {}}, [parameter])
    by_norm.clip()
    assert by_norm.options == {"clip_norm": 1.0} and parameter.grad.norm() < 1.0001
    other = clipping_of({"function": "clip_grad_norm_", "arguments": [1.0, 1.0], "named": {}}, [parameter])
    assert other.options == {"clip_norm": 1.0, "norm_type": 1.0}
    parameter.grad = torch.tensor([3.0, -4.0])
    by_value = clipping_of({"function": "clip_grad_value_", "arguments": [], "named": {"clip_value": 0.5}}, [parameter])
    by_value.clip()
    assert by_value.options == {"clip_value": 0.5} and parameter.grad.tolist() == [0.5, -0.5]


class FromBatchToLoss(nn.Module):
    """Has all that differs between a batch and its parts: statistics, dropout, and how the loss is reduced."""

    def __init__(self, reduction: str, *, noise: bool = False) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(3, 4), nn.SyncBatchNorm(4), nn.Dropout(0.5))
        self.reduction, self.noise = reduction, noise

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x + torch.randn_like(x) if self.noise else x
        return F.mse_loss(self.model(x), y, reduction=self.reduction)


def whole_and_parts() -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
    whole = {"x": torch.randn(6, 3), "y": torch.randn(6, 4)}
    return whole, [{name: one[at : at + 3] for name, one in whole.items()} for at in (0, 3)]


def test_a_mean_over_the_batch_is_the_mean_of_its_parts() -> None:
    module = FromBatchToLoss("mean")
    before = copied(module).state_dict()
    check_is_mean_of_parts(module, *whole_and_parts())
    assert all(torch.equal(one, before[name]) for name, one in module.state_dict().items())
    check_is_mean_of_parts(FromBatchToLoss("sum"), {}, [])  # one process has no parts


def test_a_sum_is_not() -> None:
    with pytest.raises(UsageError, match=r"the mean of the 2 processes' losses, of which .* is it a sum"):
        check_is_mean_of_parts(FromBatchToLoss("sum"), *whole_and_parts())


def test_what_each_process_draws_by_itself_cannot_be_told() -> None:
    with pytest.raises(UsageError, match="draws besides dropout"):
        check_is_mean_of_parts(FromBatchToLoss("mean", noise=True), *whole_and_parts())
