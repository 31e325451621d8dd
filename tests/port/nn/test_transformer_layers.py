"""port.nn.TransformerEncoderLayer and TransformerDecoderLayer against torch's, in training and in evaluation."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UnknownChoice
from port.nn import TransformerDecoderLayer, TransformerEncoderLayer

# The short run has these through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

TOLERANCE = 1e-11
VISIBLE = 1e-3  # what a planted fault exceeds
N, S, T, E, HEADS, WIDTH = 3, 5, 4, 6, 2, 7
CLASSES = {
    "encoder": (torch.nn.TransformerEncoderLayer, TransformerEncoderLayer),
    "decoder": (torch.nn.TransformerDecoderLayer, TransformerDecoderLayer),
}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def both(twin_of: Any, kind: str, dropout: float = 0.0, **options: Any) -> tuple[Any, Any]:
    theirs, ours = CLASSES[kind]
    module = theirs(E, HEADS, WIDTH, dropout, dtype=torch.float64, **options)
    return module, twin_of(ours, module, E, HEADS, WIDTH, dropout, **options)


def inputs_of(kind: str, batch_first: bool = False) -> tuple[np.ndarray, ...]:
    lengths = {"encoder": (S,), "decoder": (T, S)}[kind]
    return tuple(random(*((N, n) if batch_first else (n, N)), E, seed=n) for n in lengths)


def masks_of(kind: str) -> dict[str, Any]:
    generator = np.random.default_rng(5)

    def mask(rows: int, columns: int) -> np.ndarray:
        blocked = generator.random((rows, columns)) < 0.4
        blocked[:, 0] = False
        return blocked

    def padding(length: int) -> np.ndarray:
        return np.arange(length) >= np.array([[length], [length - 1], [2]])

    if kind == "encoder":
        return {"src_mask": mask(S, S), "src_key_padding_mask": padding(S)}
    return {
        "tgt_mask": mask(T, T),
        "memory_mask": mask(T, S),
        "tgt_key_padding_mask": padding(T),
        "memory_key_padding_mask": padding(S),
    }


CASES = [
    (kind, {"norm_first": norm_first, "batch_first": batch_first, "bias": bias, "activation": activation}, masked)
    for kind, norm_first, batch_first, bias, activation, masked in itertools.product(
        CLASSES, (True, False), (True, False), (True, False), ("relu", "gelu"), (True, False)
    )
]
PLAIN = [
    (kind, {"norm_first": norm_first, "batch_first": not norm_first, "bias": bias, "activation": activation}, bias)
    for kind, (norm_first, bias, activation) in itertools.product(
        CLASSES, [(True, False, "gelu"), (False, True, "relu")]
    )
]


@pytest.mark.parametrize(
    ("kind", "options", "masked"),
    [pytest.param(*case, marks=() if case in PLAIN else pytest.mark.sweep) for case in CASES],
)
def test_results_and_gradients_are_torchs(
    kind: str, options: dict[str, Any], masked: bool, twin_of: Any, differences: Any
) -> None:
    masks = masks_of(kind) if masked else {}
    seen = differences(*both(twin_of, kind, **options), *inputs_of(kind, options["batch_first"]), **masks)
    assert max(seen.values()) < TOLERANCE, seen


def test_another_epsilon_activation_and_order_of_norms_are_seen(twin_of: Any, differences: Any) -> None:
    options: dict[str, Any] = {"layer_norm_eps": 1e-2, "activation": "gelu"}
    inputs = inputs_of("encoder")
    module, twin = both(twin_of, "encoder", **options)
    assert max(differences(module, twin, *inputs, gradients=False).values()) < TOLERANCE
    for fault in ({"layer_norm_eps": 1e-5}, {"activation": jax.nn.relu}, {"norm_first": True}):
        twin = twin_of(TransformerEncoderLayer, module, E, HEADS, WIDTH, 0.0, **{**options, **fault})
        assert differences(module, twin, *inputs, gradients=False)["output 0"] > VISIBLE
    twin = twin_of(TransformerEncoderLayer, module, E, HEADS, WIDTH, 0.0, **{**options, "activation": jax.nn.gelu})
    assert differences(module, twin, *inputs, gradients=False)["output 0"] > 1e-5  # the tanh approximation


def test_an_activation_may_be_any_function_or_module(twin_of: Any, differences: Any) -> None:
    module = torch.nn.TransformerEncoderLayer(E, HEADS, WIDTH, 0.0, torch.nn.functional.silu, dtype=torch.float64)
    twin = twin_of(TransformerEncoderLayer, module, E, HEADS, WIDTH, 0.0, jax.nn.silu)
    assert max(differences(module, twin, *inputs_of("encoder")).values()) < TOLERANCE
    with pytest.raises(UnknownChoice, match="activation 'silu'; there are: "):
        TransformerEncoderLayer(E, HEADS, activation="silu", rngs=nnx.Rngs(0))


@pytest.mark.parametrize("kind", CLASSES)
def test_dropout_stands_where_torchs_stands(
    kind: str, twin_of: Any, differences: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TorchMask(torch.nn.Module):
        def __init__(self, mask: np.ndarray) -> None:
            super().__init__()
            self.mask = torch.from_numpy(mask)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.mask

    class Mask(nnx.Module):
        def __init__(self, mask: np.ndarray) -> None:
            self.mask = nnx.data(jnp.asarray(mask))

        def __call__(self, x: jax.Array) -> jax.Array:
            return x * self.mask

    module, twin = both(twin_of, kind, 0.5, norm_first=True)
    length = inputs_of(kind)[0].shape[0]
    names = ["dropout", "dropout1", "dropout2", *(["dropout3"] if kind == "decoder" else [])]
    for number, name in enumerate(names):
        mask = np.random.default_rng(number).random((length, N, WIDTH if name == "dropout" else E)) * 2
        setattr(module, name, TorchMask(mask))
        setattr(twin, name, Mask(mask))
    module.self_attn.dropout, twin.self_attn.dropout = 0.0, nnx.Dropout(0.0)
    if kind == "decoder":
        module.multihead_attn.dropout, twin.multihead_attn.dropout = 0.0, nnx.Dropout(0.0)
    seen = differences(module, twin, *inputs_of(kind))
    assert max(seen.values()) < TOLERANCE, seen
    twin.dropout1, twin.dropout2 = twin.dropout2, twin.dropout1
    assert differences(module, twin, *inputs_of(kind), gradients=False)["output 0"] > VISIBLE


@pytest.mark.parametrize("kind", CLASSES)
def test_the_rate_reaches_every_dropout_and_evaluation_has_none(kind: str, twin_of: Any, differences: Any) -> None:
    module, twin = both(twin_of, kind, 1.0)
    rates = [node.rate for _, node in nnx.iter_modules(twin) if isinstance(node, nnx.Dropout)]
    assert rates == [1.0] * {"encoder": 4, "decoder": 6}[kind]
    seen = differences(module, twin, *inputs_of(kind))
    assert max(seen.values()) < TOLERANCE, seen
    module.eval(), twin.eval()
    seen = differences(module, twin, *inputs_of(kind), gradients=False)
    assert max(seen.values()) < TOLERANCE, seen


def test_torchs_fast_path_agrees_but_for_blocked_rows_and_tanh_gelu(twin_of: Any) -> None:
    module, twin = both(twin_of, "encoder", batch_first=True, activation="gelu")
    module.eval(), twin.eval()
    (x,) = inputs_of("encoder", True)

    def fast(**masks: Any) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(x), **{k: torch.from_numpy(v) for k, v in masks.items()}).numpy()

    for name, mask in masks_of("encoder").items():
        np.testing.assert_allclose(fast(**{name: mask}), twin(x, **{name: jnp.asarray(mask)}), rtol=1e-10)
    mask = masks_of("encoder")["src_mask"]
    mask[1] = True
    theirs, ours = fast(src_mask=mask), np.asarray(twin(x, src_mask=jnp.asarray(mask)))
    assert np.isnan(theirs[:, 1]).all() and np.isfinite(ours).all()
    np.testing.assert_allclose(np.delete(theirs, 1, 1), np.delete(ours, 1, 1), rtol=1e-10)

    module = torch.nn.TransformerEncoderLayer(
        E, HEADS, WIDTH, 0.0, torch.nn.GELU(approximate="tanh"), batch_first=True, dtype=torch.float64
    ).eval()
    slow = module(torch.from_numpy(x)).detach().numpy()
    twin = twin_of(TransformerEncoderLayer, module, E, HEADS, WIDTH, 0.0, jax.nn.gelu, batch_first=True)
    slow = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(twin(x), slow, rtol=1e-10)
    assert np.abs(fast() - slow).max() > 1e-5  # torch's fast path computes the other GELU


@pytest.mark.parametrize("kind", CLASSES)
def test_parameters_are_drawn_as_torch_draws_them(kind: str) -> None:
    theirs, ours = CLASSES[kind]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = theirs(40, 4, 150)
    twin = ours(40, 4, 150, rngs=nnx.Rngs(0))
    for name, fan_in in (("linear1", 40), ("linear2", 150)):
        for kernel, bias in (
            (getattr(module, name).weight.detach().numpy(), getattr(module, name).bias.detach().numpy()),
            (getattr(twin, name).kernel[...], getattr(twin, name).bias[...]),
        ):
            for values in (kernel, bias):
                scaled = np.abs(np.asarray(values, np.float64)) * np.sqrt(fan_in)
                assert 1 - 20 / values.size < scaled.max() <= 1 + 1e-6
                assert abs((scaled**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / values.size)
    assert twin.norm1.epsilon == module.norm1.eps == 1e-5
    assert not twin.norm1.use_fast_variance


def test_the_dtype_is_kept() -> None:
    for kind, (_, ours) in CLASSES.items():
        twin = nnx.eval_shape(lambda ours=ours: ours(E, HEADS, WIDTH, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0)))
        inputs = [jnp.asarray(x, jnp.bfloat16) for x in inputs_of(kind)]
        out = nnx.eval_shape(lambda twin, *inputs: twin(*inputs), twin, *inputs)
        assert out.dtype == jnp.bfloat16 and out.shape == inputs[0].shape
