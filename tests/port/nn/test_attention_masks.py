"""Masks in port.nn.MultiheadAttention and in torch's: who is blocked, blocked rows, hints, torch's fast path."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port.nn.attention as attention
from port.errors import UsageError
from port.nn import MultiheadAttention

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds
N, L, S, E, HEADS = 3, 4, 5, 6, 2


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def both(twin_of: Any, **options: Any) -> tuple[Any, Any]:
    module = torch.nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **options)
    return module, twin_of(MultiheadAttention, module, E, HEADS, **options)


def some_inputs() -> tuple[np.ndarray, ...]:
    return random(L, N, E), random(S, N, E, seed=1), random(S, N, E, seed=2)


def some_blocked() -> np.ndarray:
    """(L, S); no row is blocked as a whole."""
    blocked = np.random.default_rng(5).random((L, S)) < 0.4
    blocked[:, 2] = False
    return blocked


def test_W16_true_blocks(twin_of: Any, differences: Any) -> None:
    module, twin = both(twin_of)
    inputs, masks = some_inputs(), {"attn_mask": some_blocked()}

    def inverted(twin: Any, *inputs: Any, attn_mask: Any) -> Any:
        return twin(*inputs, attn_mask=~attn_mask)

    assert max(differences(module, twin, *inputs, **masks, gradients=False).values()) < TOLERANCE
    assert differences(module, twin, *inputs, ours=inverted, **masks, gradients=False)["output 0"] > VISIBLE
    weights = twin(*inputs, attn_mask=jnp.asarray(masks["attn_mask"]), average_attn_weights=False)[1]
    assert (np.asarray(weights)[:, :, masks["attn_mask"]] == 0).all()

    # Flax, with the same weights: True attends, and a row that is blocked as a whole is the mean of the values.
    options: dict[str, Any] = {"dropout_rate": 0.5, "deterministic": True, "decode": False}
    flaxs = nnx.MultiHeadAttention(HEADS, E, param_dtype=jnp.float64, **options, rngs=nnx.Rngs(0))
    for name, kernel, bias in zip(
        ("query", "key", "value"),
        jnp.split(twin.in_proj_weight[...], 3),
        jnp.split(twin.in_proj_bias[...], 3),
        strict=True,
    ):
        getattr(flaxs, name).kernel[...] = kernel.T.reshape(E, HEADS, -1)
        getattr(flaxs, name).bias[...] = bias.reshape(HEADS, -1)
    flaxs.out.kernel[...] = twin.out_proj.kernel[...].reshape(HEADS, -1, E)
    flaxs.out.bias[...] = twin.out_proj.bias[...]
    expected = np.asarray(twin(*inputs, attn_mask=jnp.asarray(masks["attn_mask"]))[0]).swapaxes(0, 1)
    batch_first = [jnp.asarray(x).swapaxes(0, 1) for x in inputs]
    attends = jnp.asarray(~masks["attn_mask"])
    np.testing.assert_allclose(flaxs(*batch_first, mask=attends), expected, rtol=1e-10)
    blocked = flaxs(*batch_first, mask=attends.at[1].set(False))[:, 1]
    np.testing.assert_allclose(blocked, flaxs.out(flaxs.value(batch_first[2]).mean(1)), rtol=1e-10)
    # Without a dropout rate flax takes the way of jax.nn, whose softmax is float32 whatever it is given.
    flaxs.dropout_rate = 0.0
    assert 1e-9 < np.abs(flaxs(*batch_first, mask=attends) - expected).max() < 1e-5


@pytest.mark.parametrize("kind", [bool, float])
@pytest.mark.thin(2)
def test_W16_a_row_that_is_blocked_is_NaN_with_weights_and_0_without(
    kind: type, twin_of: Any, differences: Any
) -> None:
    module, twin = both(twin_of)
    blocked = some_blocked()
    blocked[1] = True
    mask = blocked if kind is bool else np.where(blocked, -np.inf, 0)
    for need_weights in (True, False):
        seen = differences(module, twin, *some_inputs(), attn_mask=mask, need_weights=need_weights)
        assert max(seen.values()) < TOLERANCE, seen  # NaN stands where torch's stands, in the gradients too
        out = np.asarray(twin(*some_inputs(), attn_mask=jnp.asarray(mask), need_weights=need_weights)[0])
        others = np.delete(out, 1, axis=0)
        assert np.isfinite(others).all()
        if need_weights:
            assert np.isnan(out[1]).all()
        else:
            np.testing.assert_array_equal(out[1], np.broadcast_to(twin.out_proj.bias[...], out[1].shape))


def test_a_blocked_row_of_the_other_kind_is_seen(
    twin_of: Any, differences: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, twin = both(twin_of)
    mask = np.ones((L, S), bool)
    softmax = attention._softmax
    monkeypatch.setattr(attention, "_softmax", lambda scores, blocked_is_nan: softmax(scores, blocked_is_nan=True))
    seen = differences(module, twin, *some_inputs(), attn_mask=mask, need_weights=False)
    assert seen["output 0"] == np.inf


def test_the_hint_is_causal_replaces_the_mask_where_torch_lets_it(twin_of: Any) -> None:
    module, twin = both(twin_of)
    inputs = [jnp.asarray(x) for x in some_inputs()]
    mask = jnp.asarray(some_blocked())
    causal = ~jnp.tril(jnp.ones((L, S), bool))
    hinted = twin(*inputs, attn_mask=mask, need_weights=False, is_causal=True)[0]
    np.testing.assert_allclose(hinted, twin(*inputs, attn_mask=causal, need_weights=False)[0], rtol=TOLERANCE)
    assert np.abs(hinted - twin(*inputs, attn_mask=mask, need_weights=False)[0]).max() > VISIBLE
    with pytest.raises(UsageError, match="is_causal is a hint about attn_mask"):
        twin(*inputs, is_causal=True)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        module(*(torch.from_numpy(np.array(x)) for x in inputs), is_causal=True)


def test_torchs_fast_path_agrees_but_for_blocked_rows_and_the_hint(twin_of: Any) -> None:
    module, twin = both(twin_of, batch_first=True)
    module.eval(), twin.eval()
    array = random(N, L, E)
    x, tensor = jnp.asarray(array), torch.from_numpy(array)

    def results(**masks: Any) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            tensors = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()}
            fast = module(tensor, tensor, tensor, **tensors)[0].numpy()
        return fast, np.asarray(twin(x, x, x, **masks)[0])

    padding = np.zeros((N, L), bool)
    padding[1, 2:] = True
    causal = ~np.tril(np.ones((L, L), bool))
    for masks in ({}, {"key_padding_mask": padding}, {"attn_mask": causal}):
        for need_weights in (True, False):
            np.testing.assert_allclose(*results(**masks, need_weights=need_weights), rtol=1e-10)

    one_row = np.zeros((L, L), bool)
    one_row[1] = True
    fast, ours = results(attn_mask=one_row, need_weights=False)
    assert np.isnan(fast[:, 1]).all() and np.isfinite(ours).all()
    np.testing.assert_allclose(np.delete(fast, 1, 1), np.delete(ours, 1, 1), rtol=1e-10)
    one_row[1, 0] = False
    fast, ours = results(attn_mask=one_row, need_weights=False, is_causal=True)
    assert np.abs(fast - ours).max() > VISIBLE  # there the mask is used, here as in torch's slow path the hint
    np.testing.assert_allclose(fast, results(attn_mask=one_row, need_weights=False)[1], rtol=1e-10)
