"""port.nn.TransformerEncoder, TransformerDecoder and Transformer against torch's, and torch's nested fast path."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

# The short run has these through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

TOLERANCE = 1e-11
VISIBLE = 1e-3  # what a planted fault exceeds
N, S, T, E, HEADS, WIDTH = 3, 5, 4, 6, 2, 7
PADDED = np.arange(S) >= np.array([[S], [S - 1], [2]])
CAUSAL = ~np.tril(np.ones((T, T), bool))


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def layer_norm(**options: Any) -> nnx.LayerNorm:
    return nnx.LayerNorm(E, epsilon=1e-5, use_fast_variance=False, **options)


def encoder(num_layers: int, *, norm: bool, batch_first: bool, param_dtype: Any, rngs: nnx.Rngs) -> TransformerEncoder:
    options: dict[str, Any] = {"param_dtype": param_dtype, "rngs": rngs}
    layer = TransformerEncoderLayer(E, HEADS, WIDTH, 0.0, batch_first=batch_first, **options)
    return TransformerEncoder(layer, num_layers, layer_norm(**options) if norm else None)


def decoder(num_layers: int, *, param_dtype: Any, rngs: nnx.Rngs) -> TransformerDecoder:
    options: dict[str, Any] = {"param_dtype": param_dtype, "rngs": rngs}
    layer = TransformerDecoderLayer(E, HEADS, WIDTH, 0.0, batch_first=True, **options)
    return TransformerDecoder(layer, num_layers, layer_norm(**options))


def torch_encoder(num_layers: int, *, norm: bool, batch_first: bool) -> torch.nn.TransformerEncoder:
    layer = torch.nn.TransformerEncoderLayer(E, HEADS, WIDTH, 0.0, batch_first=batch_first, dtype=torch.float64)
    last = torch.nn.LayerNorm(E, dtype=torch.float64) if norm else None
    return torch.nn.TransformerEncoder(layer, num_layers, last, enable_nested_tensor=batch_first)


@pytest.mark.parametrize("norm", [True, pytest.param(False, marks=pytest.mark.sweep)])
def test_an_encoder_is_torchs(norm: bool, twin_of: Any, differences: Any) -> None:
    options: dict[str, Any] = {"norm": norm, "batch_first": not norm}
    module = torch_encoder(2, **options)
    twin = twin_of(encoder, module, 2, **options)
    x = random(N, S, E) if options["batch_first"] else random(S, N, E)
    mask = np.random.default_rng(1).random((S, S)) < 0.3
    mask[:, 0] = False
    for training in (True, False):
        module.train(training), (twin.train() if training else twin.eval())
        seen = differences(module, twin, x, mask=mask, src_key_padding_mask=PADDED, gradients=training)
        assert max(seen.values()) < TOLERANCE, seen
    twin.layers[0], twin.layers[1] = twin.layers[1], twin.layers[0]
    assert differences(module, twin, x, mask=mask, gradients=False)["output 0"] > VISIBLE


def test_a_decoder_is_torchs(twin_of: Any, differences: Any) -> None:
    layer = torch.nn.TransformerDecoderLayer(E, HEADS, WIDTH, 0.0, batch_first=True, dtype=torch.float64)
    module = torch.nn.TransformerDecoder(layer, 2, torch.nn.LayerNorm(E, dtype=torch.float64))
    twin = twin_of(decoder, module, 2)
    inputs = random(N, T, E), random(N, S, E, seed=1)
    masks: dict[str, Any] = {"tgt_mask": CAUSAL, "memory_key_padding_mask": PADDED}
    for told in (True, False):  # otherwise torch finds out by itself
        hint = {"tgt_is_causal": True} if told else {}
        seen = differences(module, twin, *inputs, **masks, **hint, gradients=told)
        assert max(seen.values()) < TOLERANCE, seen

    def without_norm(twin: Any, x: jax.Array, memory: jax.Array) -> jax.Array:
        for layer in twin.layers:
            x = layer(x, memory)
        return x

    assert differences(module, twin, *inputs, ours=without_norm, gradients=False)["output 0"] > VISIBLE


@pytest.mark.parametrize("norm_first", [True, pytest.param(False, marks=pytest.mark.sweep)])
def test_a_transformer_is_torchs(norm_first: bool, twin_of: Any, differences: Any) -> None:
    arguments = (E, HEADS, 1, 1, WIDTH, 0.0)
    options: dict[str, Any] = {"norm_first": norm_first, "activation": "gelu", "bias": not norm_first}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True, but", UserWarning)
        module = torch.nn.Transformer(*arguments, dtype=torch.float64, **options)
    twin = twin_of(Transformer, module, *arguments, **options)
    masks = {"tgt_mask": CAUSAL, "src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED}
    seen = differences(module, twin, random(S, N, E), random(T, N, E, seed=1), **masks)
    assert max(seen.values()) < TOLERANCE, seen


def test_torchs_nested_path_fills_the_padding_with_zeros_and_agrees_elsewhere(twin_of: Any) -> None:
    options: dict[str, Any] = {"norm": True, "batch_first": True}
    module = torch_encoder(2, **options)
    twin = twin_of(encoder, module, 2, **options)
    module.eval(), twin.eval()
    x = random(N, S, E)
    tensors = torch.from_numpy(x), None, torch.from_numpy(PADDED)
    ours = np.asarray(twin(jnp.asarray(x), None, jnp.asarray(PADDED)))
    slow = module(*tensors).detach().numpy()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage", UserWarning)
        fast = module(*tensors).numpy()
    np.testing.assert_allclose(ours, slow, rtol=1e-10)
    np.testing.assert_allclose(fast[~PADDED], slow[~PADDED], rtol=1e-10)
    zeros_normed = np.broadcast_to(module.norm.bias.detach().numpy(), fast[PADDED].shape)
    np.testing.assert_allclose(fast[PADDED], zeros_normed, rtol=1e-10)
    assert np.abs(slow[PADDED] - zeros_normed).max() > VISIBLE


# %% Copies, and initial values


def test_copies_start_equal_and_drop_out_apart() -> None:
    layer = TransformerEncoderLayer(E, HEADS, WIDTH, 0.5, rngs=nnx.Rngs(0))
    stack = TransformerEncoder(layer, 3)
    for others in stack.layers[1:]:
        for first, other in zip(
            jax.tree.leaves(nnx.state(stack.layers[0], nnx.Param)),
            jax.tree.leaves(nnx.state(others, nnx.Param)),
            strict=True,
        ):
            np.testing.assert_array_equal(first, other)
    x = jnp.ones((S, N, E))
    drawn = [np.asarray(one.dropout1(x)) for one in stack.layers] + [np.asarray(stack.layers[0].dropout2(x))]
    for i, mask in enumerate(drawn):
        assert all((mask != other).any() for other in drawn[:i])
    stack.layers[0].linear1.kernel[...] = 0 * stack.layers[0].linear1.kernel[...]
    assert np.asarray(stack.layers[1].linear1.kernel[...]).any() and np.asarray(layer.linear1.kernel[...]).any()


def test_a_transformer_draws_every_matrix_from_xaviers_distribution() -> None:
    arguments = (40, 4, 1, 1, 100)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Transformer(*arguments, batch_first=True)
    twin = Transformer(*arguments, rngs=nnx.Rngs(0))
    theirs = [p.detach().double().numpy() for p in module.parameters() if p.dim() > 1]
    ours = [np.asarray(p, np.float64) for p in jax.tree.leaves(nnx.state(twin, nnx.Param)) if p.ndim > 1]
    assert len(ours) == len(theirs) == 2 + 4 + 4
    for values in (*theirs, *ours):
        scaled = np.abs(values) / np.sqrt(6 / sum(values.shape))
        assert 1 - 20 / values.size < scaled.max() <= 1 + 1e-6
        assert abs((scaled**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / values.size)
    plain = TransformerEncoderLayer(40, 4, 100, rngs=nnx.Rngs(0)).linear1.kernel[...]
    assert np.abs(plain).max() / np.sqrt(6 / 140) < 0.8  # before it is drawn again


def test_own_stacks_stand_in_for_both() -> None:
    class Same(nnx.Module):
        def __call__(self, x: jax.Array, *others: jax.Array, **masks: Any) -> jax.Array:
            return 2 * x + sum(jnp.sum(other) for other in others)

    twin = Transformer(E, HEADS, custom_encoder=Same(), custom_decoder=Same(), rngs=nnx.Rngs(0))
    src, tgt = jnp.ones((S, N, E)), jnp.ones((T, N, E))
    np.testing.assert_allclose(twin(src, tgt), 2 * tgt + 2 * src.sum())


def test_the_causal_mask_is_torchs() -> None:
    expected = torch.nn.Transformer.generate_square_subsequent_mask(4).numpy()
    np.testing.assert_array_equal(Transformer.generate_square_subsequent_mask(4), expected)
    assert Transformer.generate_square_subsequent_mask(4, jnp.bfloat16).dtype == jnp.bfloat16


def test_errors_say_what_was_expected() -> None:
    twin = Transformer(E, HEADS, 1, 1, WIDTH, rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match=r"6 features and one batch size, got shapes \(5, 3, 6\) and \(4, 2, 6\)"):
        twin(jnp.ones((S, N, E)), jnp.ones((T, 2, E)))
    with pytest.raises(UsageError, match="6 features"):
        twin(jnp.ones((S, N, E)), jnp.ones((T, N, 5)))
    with pytest.raises(UsageError, match="num_layers must be at least 1, got 0"):
        TransformerEncoder(twin.encoder.layers[0], 0)
