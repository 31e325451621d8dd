"""A bias on one side only is a cause, and no error."""

from __future__ import annotations

from typing import Any

import jax
import pytest
import torch
from flax import nnx
from torch import nn

import port
from port.errors import WeightsMismatch


class Layers(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(4, 5, bias=bias), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.fc(x)))


class FlaxLayers(nnx.Module):
    def __init__(self, bias: bool) -> None:
        rngs = nnx.Rngs(0)
        self.fc, self.out = nnx.Linear(4, 5, use_bias=bias, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.out(jax.nn.relu(self.fc(x)))


def causes(*, torchs: bool, flaxs: bool, zero: bool = False) -> list[tuple[str, str]]:
    torch.manual_seed(0)
    theirs, ours = Layers(torchs), FlaxLayers(flaxs)
    if zero and torchs:
        nn.init.zeros_(theirs.fc.bias)
    with pytest.raises(WeightsMismatch, match=r"fc\.bias"):
        port.load(ours, theirs)
    report = port.check(theirs, ours, torch.randn(4, 4), weights="torch")
    assert not report
    assert [finding.where for finding in report.findings if finding.what == "weights"] == ["fc.bias"]
    return [(cause.kind, cause.layer) for cause in report.causes]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"torchs": True, "flaxs": False}, "bias-missing"),
        # Outputs are the same, and yet only one of the two will train it.
        ({"torchs": True, "flaxs": False, "zero": True}, "bias-missing"),
        ({"torchs": False, "flaxs": True}, "bias-added"),
    ],
)
def test_a_bias_on_one_side_only(given: dict[str, Any], kind: str) -> None:
    assert causes(**given) == [(kind, "fc")]
