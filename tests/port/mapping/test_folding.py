"""A flatten folded into the linear layer behind it: torch's (C, H, W) features against Flax's (H, W, C)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry, Mapping, between
from port.mapping.folding import folded
from port.moves import Permute, Stack, Tie

SHAPE = (3, 2, 4)


def outputs(weights: dict[str, np.ndarray], features: np.ndarray) -> np.ndarray:
    return features.transpose(1, 2, 0).ravel() @ weights["fc.kernel"]


def test_the_layer_gives_the_same_for_features_flattened_the_other_way():
    model = torch.nn.ModuleDict({"fc": torch.nn.Linear(24, 5).double()})
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    features = np.random.default_rng(0).normal(size=SHAPE)
    wanted = state["fc.weight"] @ features.ravel()
    folding, plain = between(model, fold={"fc": SHAPE}), between(model)
    np.testing.assert_allclose(outputs(folding(state), features), wanted, rtol=1e-12)
    assert np.abs(outputs(plain(state), features) - wanted).max() > 0.1  # the planted fault: nothing folded
    back = folding.inverse()(folding(state))
    assert back["fc.weight"].tobytes() == np.ascontiguousarray(state["fc.weight"]).tobytes()


def test_a_tied_weight_is_folded_once_by_any_of_its_names():
    entry = Entry(("a.weight", "fc.weight"), ("fc.kernel",), (Tie(2), Permute((1, 0))), shapes=((5, 24),) * 2)
    (once,) = folded([entry], {"fc": SHAPE})
    (both,) = folded([entry], {"fc": SHAPE, "a": SHAPE})
    assert once == both
    assert [type(move).__name__ for move in once.moves] == ["Tie", "Fold", "Permute"]


def test_of_stacked_layers_each_is_folded_that_is_named():
    entry = Entry(("0.weight", "1.weight"), ("kernel",), (Permute((1, 0)), Stack(0, 2)), shapes=((5, 24),) * 2)
    arrays = tuple(np.random.default_rng(seed).normal(size=(5, 24)) for seed in (0, 1))
    (one,) = folded([entry], {"1": SHAPE})
    features = np.random.default_rng(2).normal(size=SHAPE)
    (stacked,) = one(arrays)
    np.testing.assert_array_equal(stacked[0], arrays[0].T)
    np.testing.assert_allclose(features.transpose(1, 2, 0).ravel() @ stacked[1], arrays[1] @ features.ravel())


def test_all_folds_that_do_not_fit_come_in_one_message():
    model = torch.nn.ModuleDict({"fc": torch.nn.Linear(24, 5), "head": torch.nn.Linear(5, 2)})
    with pytest.raises(WeightsMismatch) as caught:
        between(model, fold={"fc": (3, 2, 5), "haed": (5, 1, 1), "head": (5, 1, 1)})
    assert [line.strip() for line in str(caught.value).splitlines()] == [
        "the folds do not fit the model:",
        "fc.weight: fold(axis 1: (3, 2, 5) in order (1, 2, 0)) needs 30 elements along axis 1, got shape (5, 24)",
        "the model has no haed.weight (nearest: head.weight)",
    ]


def test_a_whole_mapping_takes_no_fold():
    with pytest.raises(UsageError, match="write the fold among its moves"):
        between(rename=Mapping(()), fold={"fc": SHAPE})
