"""Recurrent pairs: the identity to port.nn, and the sum of two biases to Flax's cells."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

from port.errors import NoPair, PortError
from port.mapping import between
from port.pairs import build_twin, pairs_of_torch, twin_pair

INPUT, HIDDEN, N, L = 3, 5, 4, 6
VISIBLE = 1e-3


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def randomised(module: Any) -> Any:
    module.double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.from_numpy(random(*parameter.shape, seed=number)))
    return module


def carried(module: torch.nn.Module, twin: Any, inputs: Any = None) -> dict[str, Any]:
    """A torch module's weights under Flax's paths."""
    state = {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}
    return between(module, twin, inputs=inputs)(state)


def fill(twin: Any, arrays: dict[str, Any]) -> Any:
    for path, array in arrays.items():
        variable = attrgetter(path)(twin)
        assert variable.shape == array.shape
        variable[...] = jnp.asarray(array)
    assert len(arrays) == len(jax.tree.leaves(nnx.state(twin, nnx.Param)))
    return twin


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.RNNCell(INPUT, HIDDEN, bias=False, nonlinearity="relu"),
        torch.nn.LSTMCell(INPUT, HIDDEN),
        torch.nn.GRUCell(INPUT, HIDDEN),
        torch.nn.RNN(INPUT, HIDDEN, 2, nonlinearity="relu", batch_first=True),
        torch.nn.LSTM(INPUT, HIDDEN, 2, bidirectional=True, proj_size=2, dropout=0.25),
        torch.nn.GRU(INPUT, HIDDEN, bias=False, bidirectional=True),
    ],
    ids=str,
)
def test_the_twin_has_torchs_options_and_torchs_parameters(module: Any) -> None:
    twin = nnx.eval_shape(lambda: build_twin(module, param_dtype=jnp.float32))
    for name, value in vars(module).items():
        if name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "bidirectional", "nonlinearity"):
            assert getattr(twin, name) == value, name
    if hasattr(module, "dropout"):
        assert twin.dropout.rate == module.dropout
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    assert {path[0]: leaf.shape for path, leaf in nnx.to_flat_state(nnx.state(twin, nnx.Param))} == shapes
    for mapping in (between(module), between(None, twin), between(module, twin)):
        assert {entry.sources: entry.targets for entry in mapping.entries} == {(name,): (name,) for name in shapes}
        assert not any(entry.moves for entry in mapping.entries)


FLAX_CELLS: dict[str, tuple[Any, Any]] = {
    "nnx.OptimizedLSTMCell": (torch.nn.LSTMCell, nnx.OptimizedLSTMCell),
    "nnx.LSTMCell": (torch.nn.LSTMCell, nnx.LSTMCell),
    "nnx.SimpleCell": (torch.nn.RNNCell, nnx.SimpleCell),
    "linen.OptimizedLSTMCell": (torch.nn.LSTMCell, linen.OptimizedLSTMCell),
    "linen.LSTMCell": (torch.nn.LSTMCell, linen.LSTMCell),
    "linen.SimpleCell": (torch.nn.RNNCell, linen.SimpleCell),
}


@pytest.mark.parametrize("name", FLAX_CELLS)
@pytest.mark.thin(3)
def test_W13_flaxs_cells_give_torchs_step_with_the_sum_of_its_biases(name: str, float64: None) -> None:
    theirs, flaxs = FLAX_CELLS[name]
    cell = randomised(theirs(INPUT, HIDDEN))
    x, h, c = random(N, INPUT), random(N, HIDDEN, seed=1), random(N, HIDDEN, seed=2)
    carry = (c, h) if theirs is torch.nn.LSTMCell else h
    if name.startswith("linen"):
        module = flaxs(HIDDEN, param_dtype=jnp.float64)
        arrays = carried(cell, module, (carry, x))
        tree: dict[str, Any] = {}
        for path, array in arrays.items():
            layer, _, parameter = path.rpartition(".")
            tree.setdefault(layer, {})[parameter] = jnp.asarray(array)

        def run(tree: Any) -> Any:
            return module.apply({"params": tree}, carry, x)[1]

        broken = {layer: {k: v if k == "kernel" else 0 * v for k, v in of.items()} for layer, of in tree.items()}
        out, without_bias = run(tree), run(broken)
    else:
        # SimpleCell computes in float32 unless told otherwise.
        twin = flaxs(INPUT, HIDDEN, dtype=jnp.float64, param_dtype=jnp.float64, rngs=nnx.Rngs(0))
        fill(twin, carried(cell, twin))
        out = twin(carry, x)[1]
        without_bias = fill(twin, {k: 0 * v if "bias" in k else v for k, v in carried(cell, twin).items()})(carry, x)[1]
    state = (torch.from_numpy(h), torch.from_numpy(c)) if theirs is torch.nn.LSTMCell else torch.from_numpy(h)
    expected = cell(torch.from_numpy(x), state)
    expected = (expected[0] if isinstance(expected, tuple) else expected).detach().numpy()
    np.testing.assert_allclose(out, expected, rtol=1e-11)
    assert np.abs(without_bias - expected).max() > VISIBLE


@pytest.mark.parametrize("name", ["nnx.OptimizedLSTMCell", "nnx.LSTMCell", "nnx.SimpleCell"])
def test_a_layer_of_one_cell_goes_to_flaxs_rnn(name: str, float64: None) -> None:
    layer = torch.nn.LSTM if "LSTM" in name else torch.nn.RNN
    module = randomised(layer(INPUT, HIDDEN, batch_first=True))
    cell = FLAX_CELLS[name][1](INPUT, HIDDEN, dtype=jnp.float64, param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    twin = nnx.RNN(cell, rngs=False)
    fill(twin, carried(module, twin))
    x = random(N, L, INPUT)
    expected = module(torch.from_numpy(x))[0].detach().numpy()
    carry = jnp.zeros((N, HIDDEN))
    ours = twin(jnp.asarray(x), initial_carry=(carry, carry) if "LSTM" in name else carry)
    np.testing.assert_allclose(ours, expected, rtol=1e-10)


def test_the_way_back_gives_the_sum_and_zero() -> None:
    cell = randomised(torch.nn.LSTMCell(INPUT, HIDDEN))
    twin = nnx.LSTMCell(INPUT, HIDDEN, rngs=nnx.Rngs(0))
    back = between(cell, twin).inverse()(carried(cell, twin))
    np.testing.assert_array_equal(back["bias_ih"], (cell.bias_ih + cell.bias_hh).detach().numpy())
    assert not back["bias_hh"].any()
    for name in ("weight_ih", "weight_hh"):
        np.testing.assert_array_equal(back[name], getattr(cell, name).detach().numpy())


def test_W14_the_wrong_gru_is_refused_with_the_reason() -> None:
    twin = nnx.GRUCell(INPUT, HIDDEN, rngs=nnx.Rngs(0))
    for torchs in (None, torch.nn.GRUCell(INPUT, HIDDEN)):
        with pytest.raises(NoPair, match=r"no hidden bias \(W14\); use port\.nn\.GRUCell"):
            between(torchs, twin)
    assert between(torch.nn.GRUCell(INPUT, HIDDEN))  # for itself it has a twin


def test_what_a_flax_cell_cannot_be_has_its_twin_in_port() -> None:
    for module in (
        torch.nn.LSTMCell(INPUT, HIDDEN, bias=False),
        torch.nn.RNNCell(INPUT, HIDDEN, nonlinearity="relu"),
        torch.nn.LSTM(INPUT, HIDDEN, 2),
        torch.nn.LSTM(INPUT, HIDDEN, bidirectional=True),
        torch.nn.LSTM(INPUT, HIDDEN, proj_size=2),
    ):
        assert [pair.flax for pair in pairs_of_torch(module)] == [f"port.nn.{type(module).__name__}"]
    assert twin_pair(torch.nn.LSTMCell(INPUT, HIDDEN)).flax == "port.nn.LSTMCell"
    other = nnx.LSTMCell(INPUT, HIDDEN, activation_fn=jax.nn.relu, rngs=nnx.Rngs(0))
    with pytest.raises(PortError, match="unexpected: weight_hh"):
        between(torch.nn.LSTMCell(INPUT, HIDDEN), other)
