"""Scans as written: the inputs of an iteration have names of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port


class Shifted(nn.Module):
    """Each round adds a row of a table, which a list holds under a number."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(7, 4)
        self.rows = nn.ParameterList([nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6, 4))])

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(2, 4)
        outs = []
        for t in range(x.shape[1]):
            h = torch.tanh(self.cell(torch.cat([x[:, t], h], -1))) + self.rows[0][t] * self.rows[1][t]
            outs.append(h)
        return torch.stack(outs, 1)


@pytest.mark.sweep
def test_an_item_of_a_list_gives_no_name_to_what_a_round_takes() -> None:
    translation = port.translate(Shifted(), torch.randn(2, 6, 3))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert "lax.scan(step, h, (" in translation.source
    assert "x_t, x_t2, x_t3 = inputs" in translation.source
