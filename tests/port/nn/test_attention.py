"""port.nn.MultiheadAttention against torch's: every option and mask, dropout, initial values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import MultiheadAttention

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds
N, L, S, E, HEADS, KDIM, VDIM = 3, 4, 5, 6, 2, 7, 8
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "kdim and vdim": {"kdim": KDIM, "vdim": VDIM},
    "kdim without bias": {"kdim": KDIM, "bias": False, "batch_first": True},
    "no bias": {"bias": False},
    "all added": {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
    "bias_k and bias_v": {"add_bias_kv": True, "vdim": VDIM},
    "zero attention": {"add_zero_attn": True, "bias": False},
}
MASKS = ("none", "boolean", "float", "of each head", "padding", "float padding", "both", "causal")


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def both(twin_of: Any, **options: Any) -> tuple[Any, Any]:
    module = torch.nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **options)
    return module, twin_of(MultiheadAttention, module, E, HEADS, **options)


def inputs_of(options: dict[str, Any], batched: bool = True) -> tuple[np.ndarray, ...]:
    sizes = ((L, E), (S, options.get("kdim", E)), (S, options.get("vdim", E)))
    if not batched:
        return tuple(random(*size, seed=i) for i, size in enumerate(sizes))
    first = options.get("batch_first", False)
    return tuple(random(*((N, n) if first else (n, N)), e, seed=i) for i, (n, e) in enumerate(sizes))


def masks_of(kind: str, batched: bool = True) -> dict[str, Any]:
    generator = np.random.default_rng(5)
    blocked = generator.random((L, S)) < 0.4
    blocked[:, 2] = False  # no row is blocked as a whole
    of_heads = generator.random(((N if batched else 1) * HEADS, L, S)) < 0.4
    of_heads[..., 1] = False
    padding = np.zeros((N, S) if batched else S, bool)
    padding[..., -1] = True
    padding.reshape(-1, S)[0, -2:] = True  # of a batch, the first has more
    floats = random(*padding.shape, seed=8)
    masks: dict[str, dict[str, Any]] = {
        "none": {},
        "boolean": {"attn_mask": blocked},
        "float": {"attn_mask": random(L, S, seed=9)},
        "of each head": {"attn_mask": of_heads},
        "padding": {"key_padding_mask": padding},
        "float padding": {"key_padding_mask": floats},
        "both": {"attn_mask": np.where(of_heads, -np.inf, 0.5), "key_padding_mask": floats},
        "causal": {"attn_mask": blocked, "is_causal": True},
    }
    return masks[kind]


# Each option and each mask once in plain runs, all of their combinations in the sweep.
COMBINATIONS = list(itertools.product(OPTIONS, MASKS, (True, False), (True, False)))
PLAIN = {
    ("plain", "both", True, True),
    ("plain", "causal", False, True),
    ("plain", "boolean", True, False),
    ("kdim and vdim", "padding", False, True),
    ("kdim without bias", "float", True, True),
    ("no bias", "none", False, False),
    ("all added", "both", True, True),
    ("all added", "causal", False, True),
    ("bias_k and bias_v", "of each head", False, True),
    ("zero attention", "float padding", True, False),
}


@pytest.mark.parametrize(
    ("name", "kind", "need_weights", "batched"),
    [pytest.param(*case, marks=() if case in PLAIN else pytest.mark.sweep) for case in COMBINATIONS],
)
@pytest.mark.thin(3)
def test_result_weights_and_gradients_are_torchs(
    name: str, kind: str, need_weights: bool, batched: bool, twin_of: Any, differences: Any
) -> None:
    options = OPTIONS[name]
    masks = masks_of(kind, batched)
    seen = differences(*both(twin_of, **options), *inputs_of(options, batched), need_weights=need_weights, **masks)
    assert ("output 1" in seen) == need_weights
    assert max(seen.values()) < TOLERANCE, seen


def test_the_weights_of_each_head_are_torchs(twin_of: Any, differences: Any) -> None:
    module, twin = both(twin_of)
    for batched in (True, False):
        seen = differences(module, twin, *inputs_of({}, batched), average_attn_weights=False, gradients=batched)
        assert max(seen.values()) < TOLERANCE, seen
    averaged, apart = (twin(*inputs_of({}), average_attn_weights=average)[1] for average in (True, False))
    assert (averaged.shape, apart.shape) == ((N, L, S), (N, HEADS, L, S))


def test_W15_heads_and_projections_mixed_up_are_seen(
    twin_of: Any, differences: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, twin = both(twin_of)
    inputs = inputs_of({})
    assert max(differences(module, twin, *inputs, gradients=False).values()) < TOLERANCE
    right = twin.in_proj_weight[...]
    query, key, value = jnp.split(right, 3)
    twin.in_proj_weight[...] = jnp.concatenate([key, query, value])
    assert differences(module, twin, *inputs, gradients=False)["output 0"] > VISIBLE
    twin.in_proj_weight[...] = right

    def interleaved(self: Any, *xs: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(jnp.moveaxis(x.reshape(*x.shape[:-1], -1, self.num_heads), -1, 1) for x in xs)

    monkeypatch.setattr(MultiheadAttention, "_heads", interleaved)
    assert differences(module, twin, *inputs, gradients=False)["output 0"] > VISIBLE


# %% Dropout


class Mask(nnx.Module):
    """A dropout whose mask is known."""

    def __init__(self, mask: np.ndarray) -> None:
        self.mask = nnx.data(jnp.asarray(mask))

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.mask


def test_dropout_falls_on_the_weights_and_the_weights_show_it(
    twin_of: Any, differences: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, twin = both(twin_of, dropout=0.4)
    mask = (np.random.default_rng(3).random((N, HEADS, L, S)) < 0.6) / 0.6
    # Torch's weights are (N · heads, L, S) when it drops some.
    fixed = torch.from_numpy(mask.reshape(N * HEADS, L, S))
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda weights, p: weights * fixed)
    twin.dropout = Mask(mask)
    seen = differences(module, twin, *inputs_of({}))
    assert max(seen.values()) < TOLERANCE, seen
    twin.dropout = Mask(mask[::-1])
    assert min(differences(module, twin, *inputs_of({}))[f"output {i}"] for i in (0, 1)) > VISIBLE


def test_dropout_of_everything_is_torchs_and_evaluation_has_none(twin_of: Any, differences: Any) -> None:
    module, twin = both(twin_of, dropout=1.0)
    for need_weights in (True, False):
        seen = differences(module, twin, *inputs_of({}), need_weights=need_weights)
        assert max(seen.values()) < TOLERANCE, seen
    module.eval(), twin.eval()
    seen = differences(module, twin, *inputs_of({}), gradients=False)
    assert max(seen.values()) < TOLERANCE, seen


@pytest.mark.sweep
def test_dropout_keeps_its_share_and_draws_anew() -> None:
    twin = MultiheadAttention(E, HEADS, 0.3, rngs=nnx.Rngs(0))
    x = jnp.ones((50, 4, E))  # equal keys: every weight is 1/50
    first, second = (twin(x, x, x, average_attn_weights=False)[1] for _ in range(2))
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(np.unique(np.asarray(first).round(6)), [0, 1 / 50 / 0.7], rtol=1e-4)
    assert abs(float((first == 0).mean()) - 0.3) < 5 * math.sqrt(0.3 * 0.7 / first.size)
    view = nnx.view(twin, deterministic=True)
    np.testing.assert_allclose(view(x, x, x)[1], 1 / 50, rtol=1e-6)


# %% Initial values, dtypes, errors


@pytest.mark.parametrize("options", [{}, {"kdim": 150, "vdim": 60}])
def test_parameters_are_drawn_as_torch_draws_them(options: dict[str, Any]) -> None:
    size = 100
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.MultiheadAttention(size, 4, add_bias_kv=True, **options)
    twin = MultiheadAttention(size, 4, add_bias_kv=True, rngs=nnx.Rngs(0), **options)
    assert twin.out_proj.kernel.shape == (size, size)
    for key, parameter in module.named_parameters():
        theirs = parameter.detach().double().numpy()
        name = key.replace("out_proj.weight", "out_proj.kernel").split(".")
        variable = getattr(twin, name[0])
        ours = np.asarray((getattr(variable, name[1]) if name[1:] else variable)[...], np.float64)
        assert theirs.size == ours.size
        if "bias" in key and key not in ("bias_k", "bias_v"):
            assert not theirs.any() and not ours.any()
            continue
        rows, columns = (1, 1) if key.startswith("bias") else parameter.shape
        variance = 1 / size if key.startswith("bias") else 1 / 3 / size if "out" in key else 2 / (rows + columns)
        for values in (theirs, ours):
            kurtosis = 2 if key.startswith("bias") else 4 / 5
            assert abs((values**2).mean() / variance - 1) < 5 * math.sqrt(kurtosis / values.size), key
            if not key.startswith("bias"):  # uniform: within √3 standard deviations
                assert 0.99 < np.abs(values).max() / math.sqrt(3 * variance) <= 1 + 1e-6
    if not options:
        assert not np.array_equal(twin.bias_k[...], twin.bias_v[...])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str) -> None:
    options: dict[str, Any] = {"add_bias_kv": True, "add_zero_attn": True, "param_dtype": jnp.dtype(dtype)}
    twin = nnx.eval_shape(lambda: MultiheadAttention(E, HEADS, **options, rngs=nnx.Rngs(0)))
    x = jnp.ones((L, N, E), dtype)
    out, weights = nnx.eval_shape(lambda m, x: m(x, x, x, attn_mask=jnp.zeros((L, L), bool)), twin, x)
    assert out.dtype == weights.dtype == jnp.dtype(dtype)
    twin = nnx.eval_shape(lambda: MultiheadAttention(E, HEADS, dtype=jnp.dtype(dtype), rngs=nnx.Rngs(0)))
    assert nnx.eval_shape(lambda m, x: m(x, x, x)[0], twin, jnp.ones((L, N, E))).dtype == jnp.dtype(dtype)


def test_errors_say_what_was_expected() -> None:
    twin = MultiheadAttention(E, HEADS, kdim=KDIM, rngs=nnx.Rngs(0))
    query, key, value = jnp.ones((L, N, E)), jnp.ones((S, N, KDIM)), jnp.ones((S, N, E))
    for wrong in ((query, value, value), (query[0], key, value), (query, key, value[:-1]), (query[:, :2], key, value)):
        with pytest.raises(UsageError, match=r"with \(6, 7, 6\) features, .*; got shapes"):
            twin(*wrong)
    with pytest.raises(UsageError, match=r"attn_mask is of shape \(4, 5\) here, got \(5, 4\)"):
        twin(query, key, value, attn_mask=jnp.ones((S, L), bool))
    with pytest.raises(UsageError, match=r"attn_mask is of shape \(6, 4, 5\) here, got \(3, 4, 5\)"):
        twin(query, key, value, attn_mask=jnp.ones((N, L, S), bool))
    with pytest.raises(UsageError, match=r"key_padding_mask is of shape \(3, 5\) here, got \(5, 3\)"):
        twin(query, key, value, jnp.ones((S, N), bool))
    with pytest.raises(UsageError, match=r"boolean .* or float .*, got int32"):
        twin(query, key, value, attn_mask=jnp.ones((L, S), jnp.int32))
    with pytest.raises(UsageError, match="embed_dim must be a multiple of num_heads, got 6 and 4"):
        MultiheadAttention(E, 4, rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match=r"dropout is a probability, got -0\.1"):
        MultiheadAttention(E, HEADS, -0.1, rngs=nnx.Rngs(0))
