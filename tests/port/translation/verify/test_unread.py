"""State that the original's results depend on and that the written module does not read is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import port
from port.mapping import TORCH_ONLY, Entry, Mapping
from port.translation.result import Translation
from port.translation.verify import prove
from port.translation.verify.torch_run import torch_run
from port.translation.verify.unread import unread_and_felt


class Mixed(nn.Module):
    """Reads a frozen weight, an index and a mask; two entries it does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.fc.weight.requires_grad_(False)
        self.register_buffer("order", torch.tensor([2, 0, 3, 1]))
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("positions", torch.arange(9))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.fc(x))[:, self.order] * self.mask


def left_out(module: nn.Module, *names: str) -> Translation:
    """A translation that has no place for some entries, as far as the check looks at it."""
    entries = [Entry((name,), (name,), (), TORCH_ONLY, None, True) for name in names]
    return Translation("", "", Mapping(tuple(entries)), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("training", [False, True])
def test_what_the_outputs_depend_on(training: bool) -> None:
    module, given = Mixed().double(), ((torch.randn(7, 4, dtype=torch.float64),), {})
    outputs = torch_run(module, given, training, 0).outputs
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    def felt(*names: str) -> list[str]:
        return unread_and_felt(module, left_out(module, *names), given, training, 0, outputs)

    # Batch statistics take out what a bias in front of them adds.
    in_evaluation = set() if training else {"fc.bias", "norm.running_mean", "norm.running_var"}
    assert set(felt(*module.state_dict())) - {"fc.bias"} == {
        "fc.weight", "order", "mask", "norm.weight", "norm.bias", *(in_evaluation - {"fc.bias"})
    }  # fmt: skip
    assert felt("positions", "head.weight", "head.bias", "norm.num_batches_tracked") == []
    assert felt("positions", "mask") == ["mask"] and felt("order") == ["order"] and felt("fc.weight") == ["fc.weight"]
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in before.items())


@pytest.mark.sweep
def test_a_literal_in_the_place_of_a_frozen_weight() -> None:
    module, x = Mixed(), torch.randn(7, 4)
    translation = port.translate(module, x)
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    numbers = module.fc.weight.detach().double().T.tolist()
    planted = translation.source.replace("self.fc(x)", f"x @ jnp.array({numbers}) + self.fc.bias[...]")
    assert planted != translation.source
    entries = [
        Entry(entry.sources, entry.sources, (), TORCH_ONLY, entry.shapes, True)
        if "fc.weight" in entry.sources
        else entry
        for entry in translation.mapping.entries
    ]
    translation = replace(translation, source=planted, mapping=Mapping(tuple(entries)))
    proof = prove(module, translation, (x,), {})
    assert not proof.agrees and "does not read fc.weight, and the original's outputs depend on it" in proof.failed
