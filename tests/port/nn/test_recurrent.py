"""port.nn.RNN, LSTM and GRU against torch's: every option, packed sequences, dropout, and JAX's transformations."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from port.errors import UnknownChoice, UsageError
from port.nn import GRU, LSTM, RNN

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run

TOLERANCE = 1e-11
VISIBLE = 1e-3  # what a planted fault exceeds
L, N, INPUT, HIDDEN = 6, 4, 3, 5
CLASSES: dict[str, tuple[Any, Any]] = {
    "RNN": (torch.nn.RNN, RNN),
    "LSTM": (torch.nn.LSTM, LSTM),
    "GRU": (torch.nn.GRU, GRU),
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {"num_layers": 2, "nonlinearity": "relu", "bidirectional": True}),
    ("RNN", {"bias": False, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
    ("LSTM", {"num_layers": 3, "batch_first": True}),
    ("LSTM", {"bias": False, "bidirectional": True}),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("GRU", {"bias": False, "num_layers": 2}),
]
SWEPT = pytest.mark.sweep
SOME = [
    pytest.param(*case, id=f"{case[0]} {case[1]}", marks=() if place in (0, 2, 5) else SWEPT)
    for place, case in enumerate(CASES)
]


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def both(twin_of: Any, name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    theirs, ours = CLASSES[name]
    module = theirs(INPUT, HIDDEN, dtype=torch.float64, **options)
    return module, twin_of(ours, module, INPUT, HIDDEN, **options)


def sequence(options: dict[str, Any], batched: bool = True) -> np.ndarray:
    return (
        random(L, INPUT) if not batched else random(N, L, INPUT) if options.get("batch_first") else random(L, N, INPUT)
    )


def states(name: str, options: dict[str, Any], batched: bool = True) -> tuple[Any, ...]:
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    batch = (N,) if batched else ()
    h = random(rows, *batch, options.get("proj_size") or HIDDEN, seed=1)
    return ((h, random(rows, *batch, HIDDEN, seed=2)),) if name == "LSTM" else (h,)


@pytest.mark.parametrize(
    ("with_state", "batched"),
    [(True, True), *(pytest.param(*case, marks=SWEPT) for case in ((False, True), (True, False), (False, False)))],
)
@pytest.mark.parametrize(("name", "options"), SOME)
@pytest.mark.thin(3)
def test_outputs_states_and_gradients_are_torchs(
    name: str, options: dict[str, Any], with_state: bool, batched: bool, twin_of: Any, differences: Any
) -> None:
    initial = states(name, options, batched) if with_state else ()
    seen = differences(*both(twin_of, name, options), sequence(options, batched), *initial)
    assert "gradient of weight_hh_l0" in seen
    assert max(seen.values()) < TOLERANCE, seen


# %% Sequences of several lengths

LENGTHS = np.array([2, 6, 1, 5])  # in no order, and one as long as the batch


def packed(module: Any, lengths: np.ndarray = LENGTHS) -> Any:
    def call(x: torch.Tensor, *initial: Any) -> Any:
        sequences = pack_padded_sequence(x, torch.from_numpy(lengths), module.batch_first, enforce_sorted=False)
        output, last = module(sequences, *initial)
        return pad_packed_sequence(output, module.batch_first, total_length=L)[0], last

    return call


def with_lengths(twin: Any, x: Any, *initial: Any, lengths: np.ndarray = LENGTHS) -> Any:
    return twin(x, *initial, lengths=jnp.asarray(lengths))


@pytest.mark.parametrize("with_state", [True, pytest.param(False, marks=SWEPT)])
@pytest.mark.parametrize(("name", "options"), SOME)
@pytest.mark.thin(3)
def test_lengths_are_torchs_packed_sequences(
    name: str, options: dict[str, Any], with_state: bool, twin_of: Any, differences: Any
) -> None:
    module, twin = both(twin_of, name, options)
    initial = states(name, options) if with_state else ()
    seen = differences(module, twin, sequence(options), *initial, theirs=packed(module), ours=with_lengths)
    assert max(seen.values()) < TOLERANCE, seen


def test_a_wrong_length_and_a_backward_start_in_the_padding_are_seen(twin_of: Any, differences: Any) -> None:
    options = {"bidirectional": True}
    module, twin = both(twin_of, "GRU", options)
    other = partial(with_lengths, lengths=np.array([2, 6, 2, 5]))
    seen = differences(module, twin, sequence(options), theirs=packed(module), ours=other)
    assert min(seen["output 0"], seen["output 1"], seen["gradient of input 0"]) > VISIBLE

    def masked_afterwards(twin: Any, x: jax.Array) -> Any:
        output, last = twin(x)
        return jnp.where((jnp.arange(L)[:, None] < jnp.asarray(LENGTHS))[..., None], output, 0), last

    seen = differences(module, twin, sequence(options), theirs=packed(module), ours=masked_afterwards)
    assert min(seen["output 0"], seen["output 1"]) > VISIBLE


def test_W28_flaxs_own_computes_on_past_the_end() -> None:
    cell = nnx.GRUCell(INPUT, HIDDEN, rngs=nnx.Rngs(0))
    x, lengths = jnp.asarray(np.random.default_rng(0).normal(size=(N, L, INPUT))), jnp.asarray(LENGTHS)
    last, output = nnx.RNN(cell, return_carry=True)(x, seq_lengths=lengths)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(last[row], output[row, length - 1], rtol=1e-6)
        assert (jnp.abs(output[row, length:]) > VISIBLE).any(axis=1).all()


@pytest.mark.sweep
def test_what_stands_in_the_padding_reaches_nothing(twin_of: Any) -> None:
    _, twin = both(twin_of, "LSTM", {"bidirectional": True})
    clean = sequence({})
    dirty = clean.copy()
    for row, length in enumerate(LENGTHS):
        clean[length:, row], dirty[length:, row] = 0, np.nan

    def loss(twin: Any, x: Any) -> jax.Array:
        return with_lengths(twin, x)[0].sum()

    for x in (clean, dirty):
        assert np.isfinite(loss(twin, jnp.asarray(x)))
    gradients = [jax.tree.leaves(nnx.grad(loss)(twin, jnp.asarray(x))) for x in (clean, dirty)]
    for of_clean, of_dirty in zip(*gradients, strict=True):
        np.testing.assert_array_equal(of_clean, of_dirty)


# %% Dropout between layers


class Masked(nnx.Module):
    """A dropout of masks that are known: between layers k and k + 1 stands masks[k]."""

    def __init__(self, masks: np.ndarray) -> None:
        self.masks = nnx.data(jnp.asarray(masks))
        self.calls = 0

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls += 1
        return x * self.masks[self.calls - 1]


def test_dropout_stands_between_layers_and_nowhere_else(twin_of: Any) -> None:
    module, twin = both(twin_of, "LSTM", {"num_layers": 3, "bidirectional": True})
    masks = (np.random.default_rng(3).random((2, L, N, 2 * HIDDEN)) < 0.6) / 0.6
    x = sequence({})
    # Torch's layers one by one, with the masks between them.
    expected, last = torch.from_numpy(x), []
    for layer in range(3):
        one = torch.nn.LSTM(expected.shape[-1], HIDDEN, bidirectional=True, dtype=torch.float64)
        names = dict(one.named_parameters())
        one.load_state_dict({key: getattr(module, key.replace("_l0", f"_l{layer}")) for key in names})
        if layer > 0:
            expected = expected * torch.from_numpy(masks[layer - 1])
        expected, (h, _) = one(expected)
        last.append(h)
    twin.dropout = Masked(masks)
    output, (h_n, _) = twin(x)
    np.testing.assert_allclose(output, expected.detach().numpy(), rtol=TOLERANCE)
    np.testing.assert_allclose(h_n, torch.cat(last).detach().numpy(), rtol=TOLERANCE)
    twin.dropout = Masked(masks[::-1])
    assert np.abs(twin(x)[0] - expected.detach().numpy()).max() > VISIBLE


@pytest.mark.sweep
def test_dropout_of_everything_is_torchs_and_evaluation_has_none(twin_of: Any, differences: Any) -> None:
    module, twin = both(twin_of, "GRU", {"num_layers": 2, "dropout": 1.0, "bidirectional": True})
    training = differences(module, twin, sequence({}))
    assert max(training.values()) < TOLERANCE, training
    module.eval(), twin.eval()
    evaluation = differences(module, twin, sequence({}))
    assert max(evaluation.values()) < TOLERANCE, evaluation
    twin.train()
    assert differences(module, twin, sequence({}), gradients=False)["output 0"] > VISIBLE


def test_dropout_keeps_its_share_and_draws_anew() -> None:
    twin = RNN(INPUT, HIDDEN, 2, dropout=0.3, rngs=nnx.Rngs(0))
    seen: list[jax.Array] = []
    original = twin.dropout
    twin.dropout = lambda x: seen.append(original(jnp.ones((200, 50)))) or x
    for _ in range(2):
        twin(jnp.ones((L, N, INPUT)))
    assert not np.array_equal(*seen)
    for mask in seen:
        np.testing.assert_allclose(np.unique(mask), [0, 1 / 0.7], rtol=1e-6)
        assert abs(float((mask == 0).mean()) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / mask.size)


# %% Initial values, dtypes, transformations, errors


def test_parameters_are_drawn_as_torch_draws_them() -> None:
    options: dict[str, Any] = {"num_layers": 2, "bidirectional": True, "proj_size": 40}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.LSTM(70, 100, **options)
    twin = LSTM(70, 100, rngs=nnx.Rngs(0), **options)
    drawn = {key: np.asarray(getattr(twin, key)[...], np.float64) for key, _ in module.named_parameters()}
    for key, parameter in module.named_parameters():
        for values in (parameter.detach().double().numpy(), drawn[key]):
            n, scaled = values.size, values.ravel() * 10  # the bound is 1/√100
            assert 1 - 20 / n < np.abs(scaled).max() <= 1 + 1e-6
            assert abs((scaled**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / n)
    firsts = {values.ravel()[0] for values in drawn.values()}
    assert len(firsts) == len(drawn)  # each is drawn anew


@pytest.mark.parametrize(("name", "dtype"), [("RNN", "float32"), ("LSTM", "float16"), ("GRU", "bfloat16")])
def test_the_dtype_is_kept(name: str, dtype: str) -> None:
    options: dict[str, Any] = {"bidirectional": True, "param_dtype": jnp.dtype(dtype)}
    twin = nnx.eval_shape(lambda: CLASSES[name][1](INPUT, HIDDEN, 2, **options, rngs=nnx.Rngs(0)))
    lengths = jnp.asarray(LENGTHS)
    out = nnx.eval_shape(lambda twin, x: twin(x, lengths=lengths), twin, jnp.ones((L, N, INPUT), dtype))
    assert {leaf.dtype for leaf in jax.tree.leaves(out)} == {jnp.dtype(dtype)}
    twin = nnx.eval_shape(lambda: CLASSES[name][1](INPUT, HIDDEN, dtype=jnp.dtype(dtype), rngs=nnx.Rngs(0)))
    out = nnx.eval_shape(lambda twin, x: twin(x), twin, jnp.ones((L, N, INPUT)))
    assert {leaf.dtype for leaf in jax.tree.leaves(out)} == {jnp.dtype(dtype)}


@pytest.mark.sweep
def test_vmap_over_sequences_is_the_batch(twin_of: Any) -> None:
    _, twin = both(twin_of, "LSTM", {"batch_first": True, "bidirectional": True})
    x = jnp.asarray(random(N, L, INPUT))
    structure, state = nnx.split(twin)
    lengths = jnp.asarray(LENGTHS)
    alone = jax.vmap(lambda x, length: nnx.merge(structure, state)(x, lengths=length)[0])(x, lengths)
    np.testing.assert_allclose(alone, twin(x, lengths=lengths)[0], rtol=TOLERANCE, atol=1e-14)


def test_errors_say_what_was_expected() -> None:
    twin = LSTM(INPUT, HIDDEN, 2, proj_size=2, rngs=nnx.Rngs(0))
    x = jnp.ones((L, N, INPUT))
    with pytest.raises(UsageError, match=r"takes \(L, N, features\), .* with 3 features; got shape \(6, 4, 2\)"):
        twin(jnp.ones((L, N, 2)))
    with pytest.raises(UsageError, match=r"of shape \(2, 4, 2\) and \(2, 4, 5\), got \(2, 4, 5\) and \(2, 4, 5\)"):
        twin(x, (jnp.ones((2, N, HIDDEN)), jnp.ones((2, N, HIDDEN))))
    with pytest.raises(UsageError, match=r"integers of shape \(4,\), got int32 of shape \(6,\)"):
        twin(x, lengths=jnp.ones(L, jnp.int32))
    with pytest.raises(UsageError, match="integers of shape"):
        twin(x, lengths=jnp.ones(N))
    with pytest.raises(UsageError, match="proj_size must be from 0 to below hidden_size 5, got 5"):
        LSTM(INPUT, HIDDEN, proj_size=5, rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match="sizes of at least 1"):
        GRU(INPUT, HIDDEN, 0, rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match=r"dropout is a probability, got 1\.5"):
        GRU(INPUT, HIDDEN, 2, dropout=1.5, rngs=nnx.Rngs(0))
    with pytest.raises(UnknownChoice, match="nonlinearity 'sigmoid'"):
        RNN(INPUT, HIDDEN, nonlinearity="sigmoid", rngs=nnx.Rngs(0))
