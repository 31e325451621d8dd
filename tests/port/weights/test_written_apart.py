"""Weights between image models that were written apart: torchvision's, and Flax models with names of their own.

The weights go over by renaming, folding and mapping files alone; then both sides agree in outputs, running statistics
and gradients, in evaluation and in training, and everything comes back bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from flax import nnx

import port
from models.agreement import (
    AGREES,
    VISIBLE,
    channels_last,
    difference,
    differences,
    empty,
    output_of,
    random,
    randomise,
    run_linen,
    run_nnx,
    run_torch,
    worst,
)
from models.resnet import LINEN_NAMES, NNX_NAMES, FlaxResNet, LinenResNet, flax_batch_norm, short_torchvision_resnet
from models.vgg import FOLD, IMAGE, FlaxVGG, thin_torchvision_vgg
from models.vgg import NAMES as VGG_NAMES
from models.vit import FEATURES, HEADS, MAPPING_FILE, FlaxViT, small_torchvision_vit
from models.vit import NAMES as VIT_NAMES
from models.vit import SIDE as VIT_SIDE
from port.errors import WeightsMismatch
from port.mapping import between
from port.nn import BatchNorm

MODES = pytest.mark.parametrize("training", [pytest.param(False, marks=pytest.mark.sweep), True], ids=["eval", "train"])


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def assert_comes_back(state: dict[str, torch.Tensor], original: torch.nn.Module, another: torch.nn.Module) -> None:
    """The state dict is the original's, bit for bit, and loads into a module of its own."""
    expected = original.state_dict()
    assert list(state) == list(expected)
    for name, tensor in expected.items():
        assert state[name].dtype == tensor.dtype, name
        assert torch.equal(state[name], tensor), name
    another.double().load_state_dict(state, strict=True)


# %% A ResNet, in nnx and in Linen

IMAGES = random(4, 3, 32, 40)  # the last layer still has 4 × 4 × 5 values a channel


def running_variances(seen: dict[str, float]) -> set[str]:
    return {path for path in seen if path.endswith(".var")}


@pytest.mark.parametrize(
    ("norm", "training"),
    [
        (BatchNorm, False),
        (BatchNorm, True),
        (flax_batch_norm, True),
    ],
)
@pytest.mark.sweep
def test_a_resnet_in_nnx(norm: Any, training: bool) -> None:
    theirs = randomise(short_torchvision_resnet()).train(training)
    ours = empty(FlaxResNet, norm=norm)
    port.load(ours, theirs.state_dict(), rename=NNX_NAMES)
    ours.train() if training else ours.eval()

    mapping = between(theirs, ours, rename=NNX_NAMES)
    seen = differences(run_torch(theirs, IMAGES), run_nnx(ours, channels_last(IMAGES)), mapping)
    wrong = {path for path, difference in seen.items() if not difference <= AGREES}
    # flax keeps the biased variance: that, and nothing else, is not torch's.
    assert wrong == (running_variances(seen) if training and norm is flax_batch_norm else set()), worst(seen)
    assert all(seen[path] > 1e3 * AGREES for path in wrong)


@pytest.mark.parametrize("norm", [BatchNorm, flax_batch_norm], ids=["port BatchNorm", "flax BatchNorm"])
def test_a_resnet_in_nnx_comes_back(norm: Any) -> None:
    theirs, another = randomise(short_torchvision_resnet()), short_torchvision_resnet()
    ours = empty(FlaxResNet, norm=norm)
    port.load(ours, theirs, rename=NNX_NAMES)
    # flax's norm has no home for how many batches there were: that comes from the module that it is like.
    like = another if norm is BatchNorm else theirs
    assert_comes_back(port.to_torch(ours, like=like, rename=NNX_NAMES), theirs, another)


@MODES
@pytest.mark.sweep
def test_a_resnet_in_linen(training: bool) -> None:
    theirs, another = randomise(short_torchvision_resnet()).train(training), short_torchvision_resnet()
    ours, example = LinenResNet(), channels_last(IMAGES)
    given: dict[str, Any] = {"rename": LINEN_NAMES, "inputs": example}
    variables = port.to_flax(theirs.state_dict(), target=ours, **given)

    mapping = between(theirs, ours, **given)
    seen = differences(run_torch(theirs, IMAGES), run_linen(ours, variables, example, train=training), mapping)
    wrong = {path for path, difference in seen.items() if not difference <= AGREES}
    assert wrong == (running_variances(seen) if training else set()), worst(seen)
    assert_comes_back(port.to_torch(variables, like=another, model=ours, **given), theirs, another)


def test_two_blocks_in_each_others_place_are_seen() -> None:
    theirs = randomise(short_torchvision_resnet()).eval()
    ours = empty(FlaxResNet)
    ours.eval()
    swapped = {
        **NNX_NAMES,
        r"^layer1\.0\.": NNX_NAMES[r"^layer1\.1\."],
        r"^layer1\.1\.": NNX_NAMES[r"^layer1\.0\."],
    }
    port.load(ours, theirs, rename=swapped)
    expected = run_torch(theirs, IMAGES).output
    assert difference(output_of(ours, channels_last(IMAGES)), expected) > VISIBLE


def test_a_name_that_nothing_renames_is_told_with_the_nearest() -> None:
    without = {pattern: name for pattern, name in NNX_NAMES.items() if "downsample" not in pattern}
    with pytest.raises(WeightsMismatch) as caught:
        port.load(empty(FlaxResNet), short_torchvision_resnet(), rename=without)
    assert "blocks_layers.2.shortcut.weight" in str(caught.value)
    assert "layer2.0.downsample.0.weight" in str(caught.value)


# %% A VGG, whose flatten is in another order

SMALL_IMAGES = random(6, 3, *IMAGE)


def converted_vgg(dropout: float = 0.0, **given: Any) -> tuple[torch.nn.Module, FlaxVGG]:
    theirs = randomise(thin_torchvision_vgg(dropout))
    ours = empty(FlaxVGG, dropout=dropout)
    port.load(ours, theirs.state_dict(), **{"rename": VGG_NAMES, "fold": FOLD, **given})
    return theirs, ours


@MODES
@pytest.mark.sweep
def test_a_vgg(training: bool) -> None:
    theirs, ours = converted_vgg()
    theirs.train(training)
    ours.train() if training else ours.eval()
    mapping = between(theirs, ours, rename=VGG_NAMES, fold=FOLD)
    seen = differences(run_torch(theirs, SMALL_IMAGES), run_nnx(ours, channels_last(SMALL_IMAGES)), mapping)
    assert worst(seen)[1] <= AGREES, worst(seen)

    another = thin_torchvision_vgg()
    assert_comes_back(port.to_torch(ours, like=another, rename=VGG_NAMES, fold=FOLD), theirs, another)


@pytest.mark.sweep
def test_a_vgg_that_drops_the_same_in_training() -> None:
    theirs, ours = converted_vgg(dropout=0.5)
    theirs.train()
    ours.train()
    key = port.dropout_key(5, 3, x64=True)
    with port.shared_dropout(theirs, key):
        expected = theirs(torch.from_numpy(SMALL_IMAGES)).detach().numpy()
    images = channels_last(SMALL_IMAGES)
    ours_key = jax.random.fold_in(jax.random.key(5), 3)
    assert difference(output_of(ours, images, ours_key), expected) <= AGREES
    another_step = jax.random.fold_in(jax.random.key(5), 4)
    assert difference(output_of(ours, images, another_step), expected) > VISIBLE


@pytest.mark.parametrize("fold", [{}, {"classifier.0": (7, 12, 5)}])
def test_W6_a_flatten_that_is_not_folded_or_folded_wrongly_is_seen(fold: dict[str, tuple[int, ...]]) -> None:
    theirs, ours = converted_vgg(fold=fold)
    expected = run_torch(theirs.eval(), SMALL_IMAGES).output
    ours.eval()
    assert difference(output_of(ours, channels_last(SMALL_IMAGES)), expected) > VISIBLE


# %% A vision transformer, whose queries, keys and values are fused on one side

PATCHED = random(3, 3, VIT_SIDE, VIT_SIDE)


@pytest.mark.sweep
def test_a_vision_transformer(tmp_path: Path) -> None:
    theirs, another = randomise(small_torchvision_vit()).train(), small_torchvision_vit()
    torch.save(theirs.state_dict(), tmp_path / "vit.pt")
    ours = empty(FlaxViT)
    port.load(ours, tmp_path / "vit.pt", rename=VIT_NAMES)

    mapping = between(theirs, ours, rename=VIT_NAMES)
    seen = differences(run_torch(theirs, PATCHED), run_nnx(ours, channels_last(PATCHED)), mapping)
    assert worst(seen)[1] <= AGREES, worst(seen)
    with torch.no_grad():  # evaluated without gradients, torch's attention takes another way
        expected = theirs.eval()(torch.from_numpy(PATCHED)).numpy()
    assert difference(output_of(ours, channels_last(PATCHED)), expected) <= AGREES
    assert_comes_back(port.to_torch(ours, like=another, rename=VIT_NAMES), theirs, another)


def test_a_mapping_file_says_the_same_as_names_and_pairs(tmp_path: Path) -> None:
    (tmp_path / "vit.toml").write_text(MAPPING_FILE)
    theirs, another = randomise(small_torchvision_vit()), small_torchvision_vit()
    by_hand, by_pairs = empty(FlaxViT), empty(FlaxViT)
    port.load(by_hand, theirs.state_dict(), rename=tmp_path / "vit.toml")
    port.load(by_pairs, theirs.state_dict(), rename=VIT_NAMES)
    jax.tree.map(np.testing.assert_array_equal, nnx.state(by_hand), nnx.state(by_pairs))
    back = port.to_torch(by_hand, like=another, rename=tmp_path / "vit.toml")
    assert_comes_back(back, theirs, another)


def test_queries_and_keys_swapped_are_seen(tmp_path: Path) -> None:
    swapped = MAPPING_FILE.replace("query.", "QUERY.").replace("key.", "query.").replace("QUERY.", "key.")
    (tmp_path / "vit.toml").write_text(swapped)
    theirs, ours = randomise(small_torchvision_vit()).eval(), empty(FlaxViT)
    port.load(ours, theirs.state_dict(), rename=tmp_path / "vit.toml")
    expected = run_torch(theirs, PATCHED).output
    assert difference(output_of(ours, channels_last(PATCHED)), expected) > VISIBLE


@pytest.mark.sweep
@pytest.mark.parametrize("heads", [3, 6])
def test_another_number_of_heads_is_refused_where_both_are_known_and_seen_where_not(heads: int) -> None:
    assert heads != HEADS
    assert FEATURES % heads == 0
    theirs, ours = randomise(small_torchvision_vit()).eval(), empty(FlaxViT, heads=heads)
    with pytest.raises(WeightsMismatch, match="self_attention"):
        port.load(ours, theirs, rename=VIT_NAMES)
    # A state dict does not tell how many heads there are: the weights fit, the network is another.
    port.load(ours, theirs.state_dict(), rename=VIT_NAMES)
    expected = run_torch(theirs, PATCHED).output
    assert difference(output_of(ours, channels_last(PATCHED)), expected) > VISIBLE


def test_flaxs_own_attention_takes_its_softmax_in_float32() -> None:
    theirs = randomise(small_torchvision_vit()).eval()
    ours = empty(FlaxViT, attention_fn=nnx.dot_product_attention)
    port.load(ours, theirs.state_dict(), rename=VIT_NAMES)
    expected = run_torch(theirs, PATCHED).output
    assert AGREES < difference(output_of(ours, channels_last(PATCHED)), expected) < 1e-6
