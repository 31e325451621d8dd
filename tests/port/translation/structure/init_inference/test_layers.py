"""Layers with a pair: what torch's constructor draws needs no initializer, as the twin draws it the same way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn
from torch.nn.utils import parametrizations

from port.mapping import TORCH_ONLY
from port.pairs.twin import build_twin
from port.translation.structure.init_inference.constructions import starts_of
from port.translation.structure.init_inference.layers import entries_of, layer_starts
from port.translation.structure.init_inference.stories import Number

from .distributions import differences


def without(layer: nn.Module, name: str) -> nn.Module:
    """A layer with one parameter removed, in the only way that torch offers."""
    layer.register_parameter(name, None)
    return layer


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": partial(nn.Linear, 6, 5),
    "convolution in groups": partial(nn.Conv1d, 4, 6, 3, groups=2),
    "transposed convolution": partial(nn.ConvTranspose2d, 3, 4, (2, 3)),
    "embedding": partial(nn.Embedding, 7, 4),
    "embedding with a row of zeros": partial(nn.Embedding, 7, 4, padding_idx=1),
    "bag": partial(nn.EmbeddingBag, 7, 4),
    "batch norm": partial(nn.BatchNorm2d, 4),
    "batch norm without its scale": lambda: without(nn.BatchNorm2d(4), "weight"),
    "group norm": partial(nn.GroupNorm, 2, 4),
    "layer norm": partial(nn.LayerNorm, 5),
    "bilinear": partial(nn.Bilinear, 3, 4, 5),
    "prelu": partial(nn.PReLU, 3),
    "lstm": partial(nn.LSTM, 3, 5, 2, bidirectional=True, proj_size=2),
    "gru": partial(nn.GRU, 3, 4),
    "cell": partial(nn.RNNCell, 3, 4),
    "attention": partial(nn.MultiheadAttention, 4, 2),
    "attention of other widths": partial(nn.MultiheadAttention, 4, 2, kdim=3, vdim=5, add_bias_kv=True),
    "encoder layer": partial(nn.TransformerEncoderLayer, 4, 2, 8),
    "decoder layer": partial(nn.TransformerDecoderLayer, 4, 2, 8),
    "transformer": partial(nn.Transformer, 4, 2, 1, 1, 8, batch_first=True),
    "adaptive softmax": partial(nn.AdaptiveLogSoftmaxWithLoss, 17, 10, [3, 6]),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(4, 5)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(4, 5)),
}


@pytest.mark.parametrize("construct", LAYERS.values(), ids=LAYERS)
def test_torchs_own_way_needs_no_word(construct: Callable[[], nn.Module]) -> None:
    assert not layer_starts(construct(), starts_of(construct))


@pytest.mark.parametrize("construct", LAYERS.values(), ids=LAYERS)
def test_another_way_is_said(construct: Callable[[], nn.Module]) -> None:
    def otherwise() -> nn.Module:
        layer = construct()
        with torch.no_grad():
            next(layer.parameters()).uniform_(0.25, 0.5)
        return layer

    found = layer_starts(construct(), starts_of(otherwise))
    first = next(name for name, _ in construct().named_parameters())
    assert first in {torchs for torchs, _ in found.values()}


@pytest.mark.sweep
@pytest.mark.daily(4)
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "orthogonal"])
def test_the_twin_starts_as_torchs_own(name: str) -> None:
    construct = LAYERS[name]
    layer = construct()
    entries = [entry for entry in entries_of(layer) if entry.collection != TORCH_ONLY]

    def values(key: jax.Array) -> dict[str, jax.Array]:
        state = nnx.state(build_twin(layer, rngs=nnx.Rngs(key)), nnx.Not(nnx.RngState))
        return {".".join(map(str, path)): variable[...] for path, variable in nnx.to_flat_state(state)}

    made = jax.jit(jax.vmap(values))(jax.random.split(jax.random.key(3), 200))
    ours: dict[str, np.ndarray] = {}
    for entry in entries:
        several = [entry.inverse()(tuple(np.asarray(made[target][n]) for target in entry.targets)) for n in range(200)]
        for place, name in enumerate(entry.sources):
            ours[name] = np.stack([arrays[place].astype(np.float64).ravel() for arrays in several])
    assert not differences(construct, ours)


def test_labels_of_a_large_table_are_views() -> None:
    """A vocabulary's output layer, tied to an embedding that pads, has hundreds of millions of elements."""

    def construct() -> nn.Module:
        layer = nn.Linear(6, 50, bias=False)
        with torch.no_grad():
            nn.init.normal_(layer.weight, std=0.02)[3] = 0
        return layer

    ((target, (torchs, start)),) = layer_starts(construct(), starts_of(construct)).items()
    assert (target, torchs, start.labels.shape, start.row_axis) == ("kernel", "weight", (6, 50), 1)
    assert start.labels.strides[0] == 0 and len(start.stories) == 2
    zero = [story for story in start.stories if isinstance(story, Number)]
    assert (start.labels[0] == start.stories.index(*zero)).tolist() == [row == 3 for row in range(50)]
