"""Parameters inside layers that are made of others get metadata by their paths."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from port.errors import UnknownChoice
from port.nn import Transformer, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, logical_axes

MLP, EMBED = logical_axes("embed", "mlp"), logical_axes("embed")


def names_in(model: nnx.Module) -> dict[str, Any]:
    """Path → the names of the axes, of the parameters that have some."""
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    names = {".".join(map(str, path)): each.get_metadata("out_sharding", None) for path, each in flat}
    return {path: found for path, found in names.items() if found is not None}


def test_all_copies_of_a_layer_have_its_metadata() -> None:
    metadata = {"linear1.kernel": MLP, "norm2.scale": EMBED}
    layer = TransformerEncoderLayer(6, 2, 8, metadata=metadata, rngs=nnx.Rngs(0))
    assert names_in(layer) == {"linear1.kernel": ("embed", "mlp"), "norm2.scale": ("embed",)}
    assert set(names_in(TransformerEncoder(layer, 2))) == {
        f"layers.{number}.{path}" for number in range(2) for path in metadata
    }


def test_a_decoders_own_parameters() -> None:
    metadata = {"norm3.bias": EMBED, "self_attn.out_proj.bias": EMBED}
    layer = TransformerDecoderLayer(6, 2, 8, metadata=metadata, rngs=nnx.Rngs(0))
    assert set(names_in(layer)) == set(metadata)


def test_a_whole_transformer_leaves_out_the_numbers_of_its_layers() -> None:
    metadata = {"encoder.layers.linear1.kernel": MLP, "decoder.norm.scale": EMBED}
    model = Transformer(6, 2, 2, 1, 8, metadata=metadata, rngs=nnx.Rngs(0))
    assert set(names_in(model)) == {
        "encoder.layers.0.linear1.kernel",
        "encoder.layers.1.linear1.kernel",
        "decoder.norm.scale",
    }


@pytest.mark.parametrize("make", [TransformerEncoderLayer, TransformerDecoderLayer])
def test_an_unknown_path_is_refused_with_the_nearest(make: type[nnx.Module]) -> None:
    with pytest.raises(
        UnknownChoice, match=r"unknown parameter 'linear1.weight'; there are: linear1.bias, linear1.kernel"
    ):
        make(6, 2, 8, metadata={"linear1.weight": MLP}, rngs=nnx.Rngs(0))


@pytest.mark.sweep
def test_each_attention_is_called_by_its_wrapper() -> None:
    called = []

    def wrap(layer: Any) -> Any:
        called.append(layer)
        return layer

    plain, wrapped = (
        TransformerDecoderLayer(6, 2, 8, 0.0, rngs=nnx.Rngs(0), **options) for options in ({}, {"wrap": wrap})
    )
    tgt, memory = (jax.random.normal(jax.random.key(seed), (5, 3, 6)) for seed in range(2))
    assert jnp.array_equal(wrapped(tgt, memory), plain(tgt, memory))
    assert called == [wrapped.self_attn, wrapped.multihead_attn]
