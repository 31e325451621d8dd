"""torch's SyncBatchNorm takes no CPU tensors (D6); ours does, and with one rank it is BatchNorm2d."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from side_by_side.pytorch.replicas import SynchronisedBatchNorm


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def filled(norm: nn.BatchNorm2d, *, with_weight: bool) -> nn.BatchNorm2d:
    generator = torch.Generator().manual_seed(1)
    if not with_weight:
        norm.register_parameter("weight", None)
    with torch.no_grad():
        for tensor in (*norm.parameters(), norm.running_mean, norm.running_var):
            tensor.add_(torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype))
    return norm


@pytest.mark.parametrize("with_weight", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_with_one_rank_it_is_batch_norm(one_rank, training, with_weight):
    given = {"num_features": 3, "eps": 1e-3, "momentum": 0.3, "dtype": torch.float64}
    ours, torchs = (
        filled(kind(**given), with_weight=with_weight).train(training)
        for kind in (SynchronisedBatchNorm, nn.BatchNorm2d)
    )
    x = torch.randn(5, 3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 3 + 1
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [norm(each) for norm, each in zip((ours, torchs), inputs, strict=True)]
    for output in outputs:
        (output * torch.arange(output.numel(), dtype=output.dtype).view_as(output).cos()).sum().backward()
    close = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(*outputs, **close)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, **close)
    for (name, ours_grad), (_, torchs_grad) in zip(ours.named_parameters(), torchs.named_parameters(), strict=True):
        torch.testing.assert_close(ours_grad.grad, torchs_grad.grad, **close, msg=name)
    for name, buffer in ours.named_buffers():
        torch.testing.assert_close(buffer, dict(torchs.named_buffers())[name], **close, msg=name)


def test_D6_torchs_own_takes_no_cpu_tensor(one_rank):
    with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor to be on"):
        nn.SyncBatchNorm(3)(torch.randn(4, 3, 2, 2))
