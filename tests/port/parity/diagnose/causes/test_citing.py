"""The note of a cause: the one that names its kind, or of several the one that the pairs at hand cite."""

from __future__ import annotations

import pytest
from torch import nn

from port.pairs.registry import pairs_of_torch
from port.parity.diagnose.causes.citing import cited_by, note_of


@pytest.mark.parametrize(
    ("kind", "operation", "layer", "id"),
    [
        ("tanh-gelu", "gelu", None, "W12"),
        ("kernel-transposed", "linear", None, "W1"),
        ("kernel-transposed", "conv2d", nn.Conv2d(1, 1, 1), "W2"),
        ("kernel-transposed", "conv_transpose2d", None, "W5"),
        ("gate-order", "lstm", nn.LSTM(1, 1), "W13"),
        ("gate-order", "gru", nn.GRU(1, 1), "W14"),
        ("bias-missing", "gru", nn.GRU(1, 1), "W14"),
        ("bias-missing", "linear", nn.Linear(1, 1), ""),
        ("ceil-mode", "avg_pool2d", None, "W18"),
        ("ceil-mode", "max_pool2d", None, "W20"),
        ("padding-at-a-stride", "conv2d", None, "W3"),
        ("activation-missing", "relu", None, ""),
    ],
)
def test_the_note_of_a_cause(kind: str, operation: str, layer: nn.Module | None, id: str) -> None:
    pair = None if layer is None else pairs_of_torch(layer)[0]
    assert note_of(kind, cited_by(operation, pair)) == id
