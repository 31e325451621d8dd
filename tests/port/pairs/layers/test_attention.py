"""Attention's pairs: the identity to port.nn, and Flax's kernels with an axis of heads."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

from port.errors import PortError
from port.mapping import between
from port.pairs import build_twin, pairs_of_torch

N, L, S, E, HEADS, KDIM = 3, 4, 5, 6, 2, 7
VISIBLE = 1e-3


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def attention(**options: Any) -> Any:
    module = torch.nn.MultiheadAttention(E, HEADS, batch_first=True, dtype=torch.float64, **options)
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.from_numpy(random(*parameter.shape, seed=number)))
    return module


def carried(module: torch.nn.Module, twin: Any, inputs: Any = None) -> dict[str, Any]:
    """A torch module's weights under Flax's paths; they come back bit for bit."""
    state = {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}
    mapping = between(module, twin, inputs=inputs)
    arrays = mapping(state)
    for name, array in mapping.inverse()(arrays).items():
        np.testing.assert_array_equal(array, state[name])
    return arrays


def fill(twin: Any, arrays: dict[str, Any]) -> Any:
    for path, array in arrays.items():
        variable = attrgetter(path)(twin)
        assert variable.shape == array.shape
        variable[...] = jnp.asarray(array)
    assert len(arrays) == len(jax.tree.leaves(nnx.state(twin, nnx.Param)))
    return twin


def inputs_of(keys: int = E) -> tuple[np.ndarray, ...]:
    return random(N, L, E), random(N, S, keys, seed=1), random(N, S, keys, seed=2)


def expected_of(module: Any, inputs: Any, **masks: Any) -> np.ndarray:
    return module(*map(torch.from_numpy, inputs), **masks)[0].detach().numpy()


@pytest.mark.parametrize(
    "options",
    [{"dropout": 0.25}, {"kdim": KDIM, "bias": False}, {"add_bias_kv": True, "add_zero_attn": True, "vdim": 8}],
)
@pytest.mark.thin(3)
def test_the_twin_has_torchs_options_and_parameters(options: dict[str, Any], float64: None) -> None:
    module = attention(**options)
    twin = build_twin(module, param_dtype=jnp.float64)
    for name in ("embed_dim", "num_heads", "kdim", "vdim", "batch_first", "add_zero_attn"):
        assert getattr(twin, name) == getattr(module, name)
    assert twin.dropout.rate == module.dropout
    fill(twin, carried(module, twin))
    twin.eval(), module.eval()
    inputs = (random(N, L, E), random(N, S, module.kdim, seed=1), random(N, S, module.vdim, seed=2))
    np.testing.assert_allclose(twin(*inputs)[0], expected_of(module, inputs), rtol=1e-10)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": KDIM, "vdim": KDIM}])
def test_W15_flaxs_attention_with_torchs_weights(options: dict[str, Any], float64: None) -> None:
    module = attention(**options)
    keys = options.get("kdim", E)
    # A dropout rate keeps flax from jax.nn's softmax, which is float32.
    settings: dict[str, Any] = {"dropout_rate": 0.5, "deterministic": True, "param_dtype": jnp.float64}
    settings["use_bias"] = options.get("bias", True)
    twin = nnx.MultiHeadAttention(
        HEADS, E, in_kv_features=keys, **settings, decode=False, keep_rngs=False, rngs=nnx.Rngs(0)
    )
    arrays = carried(module, twin)
    fill(twin, arrays)
    inputs = inputs_of(keys)
    blocked = np.random.default_rng(3).random((L, S)) < 0.4
    blocked[:, 0] = False
    expected = expected_of(module, inputs, attn_mask=torch.from_numpy(blocked))
    np.testing.assert_allclose(twin(*map(jnp.asarray, inputs), mask=jnp.asarray(~blocked)), expected, rtol=1e-10)
    swapped = {**arrays, "query.kernel": arrays["query.kernel"][..., ::-1]}
    got = fill(twin, swapped)(*map(jnp.asarray, inputs), mask=jnp.asarray(~blocked))
    assert np.abs(got - expected).max() > VISIBLE

    linens = linen.MultiHeadDotProductAttention(HEADS, qkv_features=E, out_features=E, **settings)
    given = (jax.ShapeDtypeStruct((N, L, E), jnp.float64), *[jax.ShapeDtypeStruct((N, S, keys), jnp.float64)] * 2)
    tree: dict[str, Any] = {}
    for path, array in carried(module, linens, given).items():
        layer, _, parameter = path.rpartition(".")
        tree.setdefault(layer, {})[parameter] = jnp.asarray(array)
    got = linens.apply({"params": tree}, *map(jnp.asarray, inputs), mask=jnp.asarray(~blocked))
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_linens_features_may_be_left_to_the_input(float64: None) -> None:
    module, twin = attention(), linen.MultiHeadDotProductAttention(HEADS, param_dtype=jnp.float64)
    x = random(N, L, E)
    arrays = carried(module, twin, x)
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        layer, _, parameter = path.rpartition(".")
        tree.setdefault(layer, {})[parameter] = jnp.asarray(array)
    expected = expected_of(module, (x, x, x))
    np.testing.assert_allclose(twin.apply({"params": tree}, jnp.asarray(x)), expected, rtol=1e-10)


def test_what_flaxs_attention_cannot_be_has_its_twin_in_port() -> None:
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": KDIM}):
        assert [pair.flax for pair in pairs_of_torch(attention(**options))] == ["port.nn.MultiheadAttention"]
    twin = nnx.MultiHeadAttention(HEADS, E, decode=False, keep_rngs=False, rngs=nnx.Rngs(0))
    with pytest.raises(PortError, match="bias_k"):
        between(attention(add_bias_kv=True), twin)
    with pytest.raises(PortError):
        between(attention(), nnx.MultiHeadAttention(3, E, decode=False, keep_rngs=False, rngs=nnx.Rngs(0)))
