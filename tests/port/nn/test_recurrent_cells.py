"""port.nn.RNNCell, LSTMCell and GRUCell against torch's, and what Flax's own cells lack."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port.nn.recurrent_cells as cells
from port.errors import UnknownChoice, UsageError
from port.nn import GRUCell, LSTMCell, RNNCell

# The short run has these through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

OUTPUTS, GRADIENTS = 1e-12, 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds
N, INPUT, HIDDEN = 4, 3, 5
CELLS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "RNNCell": (torch.nn.RNNCell, RNNCell, {}),
    "RNNCell with relu": (torch.nn.RNNCell, RNNCell, {"nonlinearity": "relu"}),
    "LSTMCell": (torch.nn.LSTMCell, LSTMCell, {}),
    "GRUCell": (torch.nn.GRUCell, GRUCell, {}),
}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def both(twin_of: Any, name: str, **options: Any) -> tuple[Any, Any]:
    theirs, ours, more = CELLS[name]
    cell = theirs(INPUT, HIDDEN, dtype=torch.float64, **more, **options)
    return cell, twin_of(ours, cell, INPUT, HIDDEN, **more, **options)


def inputs_of(name: str, batched: bool, with_state: bool) -> tuple[Any, ...]:
    batch = (N,) if batched else ()
    x, h, c = random(*batch, INPUT), random(*batch, HIDDEN, seed=1), random(*batch, HIDDEN, seed=2)
    return (x,) if not with_state else (x, (h, c)) if name == "LSTMCell" else (x, h)


OPTIONS = list(itertools.product((True, False), repeat=3))


@pytest.mark.parametrize(
    ("batched", "with_state", "bias"),
    [pytest.param(*case, marks=() if sum(case) in (1, 3) else pytest.mark.sweep) for case in OPTIONS],
)
@pytest.mark.parametrize("name", CELLS)
def test_a_step_and_its_gradients_are_torchs(
    name: str, batched: bool, with_state: bool, bias: bool, twin_of: Any, differences: Any
) -> None:
    seen = differences(*both(twin_of, name, bias=bias), *inputs_of(name, batched, with_state))
    assert len(seen) >= 1 + 1 + (4 if bias else 2)
    assert max(seen.values()) < OUTPUTS, seen


def test_a_wrong_order_of_gates_is_seen(twin_of: Any, differences: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_gates_turned(step: Any, gates: int) -> Any:
        def turn(x: jax.Array) -> jax.Array:
            return jnp.roll(x, x.shape[-1] // gates, -1)

        return lambda from_input, from_hidden, state: step(turn(from_input), turn(from_hidden), state)

    monkeypatch.setattr(cells, "lstm_step", with_gates_turned(cells.lstm_step, 4))
    monkeypatch.setattr(cells, "gru_step", with_gates_turned(cells.gru_step, 3))
    for name in ("LSTMCell", "GRUCell"):
        assert differences(*both(twin_of, name), *inputs_of(name, True, True), gradients=False)["output 0"] > VISIBLE


def test_a_bias_in_the_wrong_place_is_seen(twin_of: Any, differences: Any) -> None:
    for name, seen_in_the_output in (("GRUCell", True), ("LSTMCell", False)):
        cell, twin = both(twin_of, name)
        twin.bias_ih, twin.bias_hh = twin.bias_hh, twin.bias_ih
        # Only a GRU's output tells its two biases apart.
        assert (
            differences(cell, twin, *inputs_of(name, True, True), gradients=False)["output 0"] > VISIBLE
        ) == seen_in_the_output


# %% What Flax's cells lack


def flax_twin(cls: Any, cell: torch.nn.LSTMCell) -> Any:
    """An LSTM cell of Flax with torch's kernels, and the sum of its biases."""
    twin = cls(INPUT, HIDDEN, param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    weight_ih, weight_hh, bias = (
        t.detach().numpy() for t in (cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh)
    )
    twin.dense_i.kernel[...], twin.dense_h.kernel[...], twin.dense_h.bias[...] = weight_ih.T, weight_hh.T, bias
    return twin


def test_W13_one_bias_gives_torchs_output_and_trains_half_as_far(twin_of: Any) -> None:
    cell, ours = both(twin_of, "LSTMCell")
    flaxs = flax_twin(nnx.OptimizedLSTMCell, cell)
    x, (h, c) = inputs_of("LSTMCell", True, True)
    before = (cell.bias_ih + cell.bias_hh).detach().numpy().copy()
    out, _ = cell(torch.from_numpy(x), (torch.from_numpy(h), torch.from_numpy(c)))
    np.testing.assert_allclose(flaxs((c, h), x)[1], out.detach().numpy(), rtol=OUTPUTS)

    out.sum().backward()
    torch.optim.SGD(cell.parameters(), 0.1).step()
    step = (cell.bias_ih + cell.bias_hh).detach().numpy() - before
    flax_step = -0.1 * nnx.grad(lambda m: m((c, h), x)[1].sum())(flaxs).dense_h.bias[...]
    gradients = nnx.grad(lambda m: m(x, (h, c))[0].sum())(ours)
    our_step = -0.1 * (gradients.bias_ih[...] + gradients.bias_hh[...])
    np.testing.assert_allclose(step, our_step, rtol=GRADIENTS)
    np.testing.assert_allclose(step, 2 * flax_step, rtol=GRADIENTS)
    assert np.abs(step).max() > VISIBLE


def test_W14_flaxs_GRUCell_has_no_hidden_bias(twin_of: Any) -> None:
    cell, twin = both(twin_of, "GRUCell")
    flaxs = nnx.GRUCell(INPUT, HIDDEN, param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    assert flaxs.dense_h.bias is None
    bias_ih, bias_hh = (t.detach().numpy() for t in (cell.bias_ih, cell.bias_hh))
    flaxs.dense_i.kernel[...] = cell.weight_ih.detach().numpy().T
    flaxs.dense_h.kernel[...] = cell.weight_hh.detach().numpy().T
    flaxs.dense_i.bias[...] = bias_ih + bias_hh  # the nearest that it can come
    x, h = inputs_of("GRUCell", True, True)
    expected = cell(torch.from_numpy(x), torch.from_numpy(h)).detach().numpy()
    np.testing.assert_allclose(twin(x, h), expected, rtol=OUTPUTS)
    assert np.abs(flaxs(h, x)[1] - expected).max() > VISIBLE

    # Without the hidden bias of the new gate alone, it is torch's.
    with torch.no_grad():
        cell.bias_hh[2 * HIDDEN :] = 0
    flaxs.dense_i.bias[...] = (cell.bias_ih + cell.bias_hh).detach().numpy()
    expected = cell(torch.from_numpy(x), torch.from_numpy(h)).detach().numpy()
    np.testing.assert_allclose(flaxs(h, x)[1], expected, rtol=OUTPUTS)


# %% Initial values, dtypes, errors


@pytest.mark.parametrize("name", CELLS)
def test_parameters_are_drawn_as_torch_draws_them(name: str) -> None:
    theirs, ours, options = CELLS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cell = theirs(150, 100, **options)
    twin = ours(150, 100, rngs=nnx.Rngs(0), **options)
    for key, parameter in cell.named_parameters():
        for values in (parameter.detach().numpy(), np.asarray(getattr(twin, key)[...])):
            n, scaled = values.size, np.asarray(values, np.float64).ravel() * 10  # the bound is 1/√100
            assert 1 - 20 / n < np.abs(scaled).max() <= 1 + 1e-6
            assert abs((scaled**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / n)


@pytest.mark.parametrize(("name", "dtype"), [("RNNCell", "float32"), ("LSTMCell", "float16"), ("GRUCell", "bfloat16")])
def test_the_dtype_is_kept(name: str, dtype: str) -> None:
    _, ours, options = CELLS[name]
    twin = ours(INPUT, HIDDEN, param_dtype=jnp.dtype(dtype), rngs=nnx.Rngs(0), **options)
    out = jax.jit(twin)(jnp.ones((N, INPUT), dtype))
    assert {leaf.dtype for leaf in jax.tree.leaves(out)} == {jnp.dtype(dtype)}
    wide = ours(INPUT, HIDDEN, dtype=jnp.dtype(dtype), rngs=nnx.Rngs(0), **options)
    assert jax.tree.leaves(wide(jnp.ones((N, INPUT), jnp.float32)))[0].dtype == jnp.dtype(dtype)


def test_errors_say_what_was_expected() -> None:
    cell = LSTMCell(INPUT, HIDDEN, rngs=nnx.Rngs(0))
    with pytest.raises(UsageError, match=r"LSTMCell takes \(\.\.\., 3\) features, got shape \(4, 2\)"):
        cell(jnp.ones((4, 2)))
    with pytest.raises(UsageError, match=r"state of shape \(4, 5\) here, got \(1, 5\)"):
        cell(jnp.ones((4, 3)), (jnp.ones((1, 5)), jnp.ones((4, 5))))
    with pytest.raises(UnknownChoice, match="nonlinearity 'sigmoid'; there are: "):
        RNNCell(INPUT, HIDDEN, nonlinearity="sigmoid", rngs=nnx.Rngs(0))
