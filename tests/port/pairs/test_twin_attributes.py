"""A layer's plain values, as its twin holds them: the names are found by moving the value, for every pair."""

from __future__ import annotations

import pytest
from torch import nn

from port.pairs.twin import build_twin
from port.pairs.twin_attributes import twin_attribute

HELD = [
    (nn.Linear(3, 3), "in_features", "in_features"),
    (nn.Linear(3, 3), "out_features", "out_features"),
    (nn.Embedding(6, 6), "embedding_dim", "features"),
    (nn.Embedding(6, 6), "num_embeddings", "num_embeddings"),
    (nn.Conv1d(4, 4, 3, groups=4), "out_channels", "out_features"),
    (nn.Conv1d(4, 4, 3, groups=4), "groups", "feature_group_count"),
    (nn.ConvTranspose2d(2, 2, 3), "in_channels", "in_features"),
    (nn.LayerNorm(3), "eps", "epsilon"),
    (nn.GRU(2, 2, 2, bidirectional=True), "hidden_size", "hidden_size"),
    (nn.GRU(2, 2, 2, bidirectional=True), "num_layers", "num_layers"),
    (nn.GRU(2, 2, 2, bidirectional=True), "bidirectional", "bidirectional"),
    (nn.LSTMCell(3, 3), "hidden_size", "hidden_size"),
    (nn.MultiheadAttention(4, 4), "num_heads", "num_heads"),
    (nn.Dropout(0.25), "p", "rate"),
]


@pytest.mark.parametrize(("layer", "theirs", "ours"), HELD, ids=lambda part: part if isinstance(part, str) else "")
def test_the_twin_holds_it(layer: nn.Module, theirs: str, ours: str) -> None:
    assert twin_attribute(layer, theirs) == ours
    assert getattr(build_twin(layer), ours) == getattr(layer, theirs)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.MultiheadAttention(4, 2), "head_dim"),  # the twin works it out by itself
        (nn.GroupNorm(2, 4), "num_channels"),
        (nn.LeakyReLU(0.2), "negative_slope"),  # a function
        (nn.Conv1d(4, 6, 3), "kernel_size"),  # no plain value
        (nn.Linear(3, 4), "bias"),
        (nn.Linear(3, 4), "nothing_of_the_kind"),
        (nn.FractionalMaxPool2d(2, output_size=1), "kernel_size"),
    ],
)
def test_it_does_not(layer: nn.Module, name: str) -> None:
    assert twin_attribute(layer, name) is None
