"""Buffers that no graph reads: those in no checkpoint are omitted, all others stay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port


class Rotary(nn.Module):
    """Frequencies, and a copy of them that nothing reads."""

    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, 4) / 4), persistent=persistent)
        self.register_buffer("original", self.frequencies.clone(), persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.frequencies


class InTraining(nn.Module):
    """A buffer that training alone reads, and one that it only writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gain", torch.tensor([1.0, 2.0, 3.0, 4.0]), persistent=False)
        self.register_buffer("last", torch.zeros(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.last.copy_(x.detach()[0])
            return x * self.gain
        return x + 1


@pytest.mark.usefixtures("from_what_they_make")
@pytest.mark.parametrize("persistent", [False, True])
def test_a_copy_that_nothing_reads_is_left_out_unless_a_checkpoint_has_it(persistent: bool) -> None:
    made = port.translate(Rotary(persistent), torch.randn(2, 4), construct=lambda: Rotary(persistent), static=True)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert ("original" in made.source) is persistent
    sources = {name for entry in made.mapping.entries for name in entry.sources}
    assert ("original" in sources) is persistent


def test_what_training_alone_reads_or_writes_stays() -> None:
    made = port.translate(InTraining(), torch.randn(2, 4), construct=InTraining, static=True)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert "self.gain = " in made.source
    assert "self.last = " in made.source
