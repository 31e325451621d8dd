"""Random weights: no two tensors are alike, none stays what layers start with; constants stay."""

from __future__ import annotations

import torch

from port.matching.random_weights import with_random_weights


def test_what_starts_alike_is_told_apart_afterwards() -> None:
    module = torch.nn.Sequential(torch.nn.LayerNorm(6), torch.nn.LayerNorm(6), torch.nn.BatchNorm1d(6))
    module[0].register_buffer("table", torch.ones(6))
    module[1].bias.requires_grad_(False)
    made = dict(with_random_weights(module).named_parameters()) | dict(with_random_weights(module).named_buffers())
    tensors = [tensor for name, tensor in made.items() if tensor.shape == (6,) and name not in ("0.table", "1.bias")]
    assert len(tensors) == 7 and len({tuple(tensor.tolist()) for tensor in tensors}) == 7
    assert not any(bool((tensor == tensor[0]).all()) for tensor in tensors) and bool((made["2.running_var"] > 0).all())
    assert torch.equal(made["0.table"], torch.ones(6)) and torch.equal(made["1.bias"], torch.zeros(6))
    assert torch.equal(module[0].weight, torch.ones(6)) and int(made["2.num_batches_tracked"]) == 0
    assert torch.equal(made["0.weight"], with_random_weights(module)[0].weight)
