"""Transformer pairs: twins with torch's options, and what has no twin, with the reason."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import NoPair
from port.mapping import between
from port.pairs import build_twin

E, HEADS, WIDTH, N, S, T = 6, 2, 7, 3, 5, 4


@pytest.fixture(autouse=True)
def without_nested_tensors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True, but", UserWarning)
        yield


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def check(module: Any, *inputs: np.ndarray) -> Any:
    """The twin that the pairs make has torch's weights in its places, and gives torch's result."""
    module.double().eval()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.from_numpy(random(*parameter.shape, seed=number)))
    twin = nnx.eval_shape(lambda: build_twin(module, param_dtype=jnp.float64))
    mapping = between(module, twin)
    state = {key: tensor.detach().numpy() for key, tensor in module.state_dict().items()}
    weights = mapping(state)
    assert all((mapping.inverse()(weights)[key] == state[key]).all() for key in state)
    variables = {".".join(map(str, path)): leaf for path, leaf in nnx.to_flat_state(nnx.state(twin, nnx.Param))}
    assert weights.keys() == variables.keys()
    for path, variable in variables.items():
        variable.set_value(jnp.asarray(weights[path]))
    twin.eval()
    expected = module(*map(torch.from_numpy, inputs)).detach().numpy()
    got = jax.jit(lambda *inputs: twin(*inputs))(*map(jnp.asarray, inputs))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)
    return twin


def encoder_layer(**options: Any) -> torch.nn.TransformerEncoderLayer:
    return torch.nn.TransformerEncoderLayer(E, HEADS, WIDTH, 0.25, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "gelu", "norm_first": True, "bias": False},
        {"activation": torch.nn.GELU(approximate="tanh"), "batch_first": True, "layer_norm_eps": 1e-2},
        {"activation": torch.nn.PReLU(init=0.3)},
    ],
    ids=str,
)
def test_a_layers_options(options: dict[str, Any], float64: None) -> None:
    twin = check(encoder_layer(**options), random(N, S, E))
    assert {twin.dropout.rate, twin.dropout1.rate, twin.dropout2.rate, twin.self_attn.dropout.rate} == {0.25}
    assert twin.norm1.epsilon == options.get("layer_norm_eps", 1e-5)


def test_a_decoder(float64: None) -> None:
    layer = torch.nn.TransformerDecoderLayer(E, HEADS, WIDTH, norm_first=True)
    twin = check(torch.nn.TransformerDecoder(layer, 2, torch.nn.LayerNorm(E)), random(T, N, E), random(S, N, E, seed=1))
    assert len(twin.layers) == 2 and twin.layers[1].dropout3.rate == 0.1


def test_an_encoder_without_norm(float64: None) -> None:
    assert check(torch.nn.TransformerEncoder(encoder_layer(), 2), random(S, N, E)).norm is None


@pytest.mark.parametrize("own", [False, True], ids=["as made", "an encoder of one's own"])
@pytest.mark.thin(2)
def test_a_transformer(own: bool, float64: None) -> None:
    encoder = torch.nn.TransformerEncoder(encoder_layer(), 1) if own else None  # without the norm that torch gives it
    module = torch.nn.Transformer(E, HEADS, 1, 1, WIDTH, 0.25, custom_encoder=encoder)
    twin = check(module, random(S, N, E), random(T, N, E, seed=1))
    assert (twin.encoder.norm is None) == own
    assert twin.decoder.layers[0].dropout.rate == 0.25


def test_what_has_no_twin_says_why() -> None:
    with pytest.raises(NoPair, match=r"its activation is .*silu.*: pass it as a module"):
        build_twin(encoder_layer(activation=torch.nn.functional.silu))
    changed = encoder_layer()
    changed.dropout2 = torch.nn.Dropout(0.5)
    with pytest.raises(NoPair, match=r"dropout2: not as constructed by torch\.nn\.TransformerEncoderLayer"):
        build_twin(changed)
    decoder = torch.nn.TransformerDecoderLayer(E, HEADS, WIDTH)
    decoder.multihead_attn.num_heads = 3
    with pytest.raises(NoPair, match=r"multihead_attn: not as constructed by torch\.nn\.TransformerDecoderLayer"):
        build_twin(decoder)
    stack = torch.nn.TransformerEncoder(encoder_layer(), 3)
    stack.layers[2].norm_first = True
    with pytest.raises(NoPair, match="layer 2 differs from layer 0"):
        build_twin(stack)
