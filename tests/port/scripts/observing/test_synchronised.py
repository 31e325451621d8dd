"""SyncBatchNorm on a CPU is batch norm: over one process's part where that is all, over both where there are two."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from port.scripts.observing import synchronised


@pytest.mark.parametrize("momentum", [0.1, None])
def test_alone_it_is_batch_norm(momentum: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: None)
    torch.manual_seed(0)
    ours, theirs = nn.SyncBatchNorm(3, momentum=momentum).double(), nn.BatchNorm2d(3, momentum=momentum).double()
    for _ in range(2):
        x = torch.randn(4, 3, 2, 5, dtype=torch.float64, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        a, b = synchronised._normalised(ours, x), theirs(other)
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        for result, given in ((a, x), (b, other)):
            (result**3).sum().backward()
            assert given.grad is not None
        torch.testing.assert_close(x.grad, other.grad, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-12, atol=1e-12)


def test_a_group_of_its_own_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: asked.append(group))
    ours, group = nn.SyncBatchNorm(3), object()
    ours.process_group = group
    synchronised._normalised(ours, torch.randn(4, 3, requires_grad=True)).sum().backward()
    assert len(asked) >= 5 and all(one is group for one in asked)


def test_two_processes_have_the_statistics_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has the same part again: twice the sums, and the unbiased variance of twice as many."""
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, group: tensor.mul_(2))
    x = torch.randn(4, 3, 5, dtype=torch.float64)
    ours, theirs = nn.SyncBatchNorm(3).double(), nn.BatchNorm1d(3).double()
    result = synchronised._normalised(ours, x)
    torch.testing.assert_close(result, theirs(torch.cat([x, x]))[:4], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-12, atol=1e-12)
    alone = nn.BatchNorm1d(3).double()
    alone(x)
    assert not torch.allclose(ours.running_var, alone.running_var, rtol=1e-6)
