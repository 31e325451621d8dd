"""torch.nn.Embedding and EmbeddingBag and what they are paired with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen as flax_linen
from flax import nnx
from torch import nn

from port.pairs import twin_pair

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds

INDICES = torch.tensor([[5, 5, 1], [0, 5, 6]])
BAGS = torch.tensor([4, 4, 1, 0, 6, 2, 1, 1, 5])
OFFSETS = torch.tensor([0, 3, 3, 7])  # the second is empty
FACTORS = torch.from_numpy(np.random.default_rng(5).normal(size=9))

CASES: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "plain": (lambda: nn.Embedding(7, 3), (INDICES,)),
    "plain, int32": (lambda: nn.Embedding(7, 3), (INDICES.int(),)),
    "a row alone": (lambda: nn.Embedding(1, 3), (INDICES * 0,)),
    "padding": (lambda: nn.Embedding(7, 3, padding_idx=5), (INDICES,)),
    "padding from the end": (lambda: nn.Embedding(7, 3, padding_idx=-2), (INDICES,)),
    "by frequency": (lambda: nn.Embedding(7, 3, scale_grad_by_freq=True), (INDICES,)),
    "padding, by frequency": (lambda: nn.Embedding(7, 3, padding_idx=1, scale_grad_by_freq=True), (INDICES,)),
    "norm": (lambda: nn.Embedding(7, 3, padding_idx=1, max_norm=1.3), (INDICES,)),
    "norm, absolute": (lambda: nn.Embedding(7, 3, max_norm=1.3, norm_type=1.0), (INDICES,)),
    "norm, largest": (lambda: nn.Embedding(7, 3, max_norm=0.5, norm_type=float("inf")), (INDICES,)),
    "sum with factors": (lambda: nn.EmbeddingBag(7, 3, mode="sum", padding_idx=1), (BAGS, OFFSETS, FACTORS)),
    "sum with factors, by frequency": (
        lambda: nn.EmbeddingBag(7, 3, mode="sum", scale_grad_by_freq=True),
        (BAGS, OFFSETS, FACTORS),
    ),
    **{
        f"{mode}, {name}": (partial(nn.EmbeddingBag, 7, 3, mode=mode, **options), inputs)
        for mode in ("sum", "mean", "max")
        for name, options, inputs in [
            ("plain", {}, (BAGS, OFFSETS)),
            ("padding", {"padding_idx": 1}, (BAGS, OFFSETS)),
            ("all padding", {"padding_idx": 4}, (BAGS[:2].reshape(1, 2),)),
            ("last offset", {"include_last_offset": True}, (BAGS, torch.tensor([0, 2, 2, 9]))),
            ("of one length, norm", {"max_norm": 1.0}, (BAGS.reshape(3, 3),)),
        ]
    },
    **{
        f"{mode}, by frequency": (
            partial(nn.EmbeddingBag, 7, 3, mode=mode, scale_grad_by_freq=True, padding_idx=1),
            (BAGS, OFFSETS),
        )
        for mode in ("sum", "mean")
    },
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(9)
def test_W17_the_twin_computes_the_same_with_the_same_gradients(name: str, sides: Any) -> None:
    make, inputs = CASES[name]
    both = sides(make())
    both.check_weights()
    assert both.difference(*inputs, steps=2) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("padding", {"padding_idx": None}),
        ("by frequency", {"scale_grad_by_freq": False}),
        ("norm", {"max_norm": 1.4}),
        ("norm", {"norm_type": 1.0}),
        ("mean, padding", {"padding_idx": None}),
        ("max, plain", {"mode": "mean"}),
        ("sum, last offset", {"include_last_offset": False}),
    ],
)
def test_W17_a_twin_without_the_option_is_seen(name: str, fault: dict[str, Any], sides: Any) -> None:
    make, inputs = CASES[name]
    both = sides(make(), attributes=fault)
    if "include_last_offset" in fault:
        with pytest.raises(AssertionError, match="output"):  # a bag more
            both.difference(*inputs, steps=1)
    else:
        assert both.difference(*inputs, steps=1) > VISIBLE


def test_flaxs_own_layer_is_the_twin_where_it_is_exact() -> None:
    assert twin_pair(nn.Embedding(7, 3)).flax == "flax.nnx.Embed"
    for options in ({"padding_idx": 0}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}):
        assert twin_pair(nn.Embedding(7, 3, **options)).flax == "port.nn.Embedding"


# %% Written apart


def test_flaxs_embed_has_no_padding(sides: Any) -> None:
    """W17: the padding row gets a gradient."""
    make, inputs = CASES["padding"]
    both = sides(make(), flax=("flax.nnx.Embed", partial(nnx.Embed, 7, 3, param_dtype=jnp.float64)))
    assert both.difference(*inputs, steps=1) > VISIBLE


def test_linens_embed(sides: Any, linen: Any) -> None:
    layer, module = sides(nn.Embedding(7, 3)).layer, flax_linen.Embed(7, 3, param_dtype=jnp.float64)
    y = module.apply(linen(layer, module), jnp.asarray(INDICES.numpy()))
    np.testing.assert_array_equal(y, layer(INDICES).detach().numpy())
