"""One time step of torch's recurrences, from the input's and the hidden state's part of the gates.

Every step takes ``from_input`` = W_ih x + b_ih and ``from_hidden`` = W_hh h + b_hh, both of shape (..., gates ·
hidden_size), and the previous state, a tuple of arrays (..., hidden_size); it returns the next state, the output first.
Formulas: the documentation of torch.nn.RNNCell, LSTMCell and GRUCell.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice

State = tuple[jax.Array, ...]
Step = Callable[[jax.Array, jax.Array, State], State]

NONLINEARITIES: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def rnn_step(nonlinearity: str) -> Step:
    """h' = tanh or relu (W_ih x + b_ih + W_hh h + b_hh).

    Raises:
        UnknownChoice: a nonlinearity that is neither "tanh" nor "relu".
    """
    if nonlinearity not in NONLINEARITIES:
        raise UnknownChoice("nonlinearity", nonlinearity, NONLINEARITIES)
    activation = NONLINEARITIES[nonlinearity]

    def step(from_input: jax.Array, from_hidden: jax.Array, state: State) -> State:
        return (activation(from_input + from_hidden),)

    return step


def lstm_step(from_input: jax.Array, from_hidden: jax.Array, state: State) -> State:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'); the gates in the order i, f, g, o. The state is (h, c)."""
    _, c = state
    i, f, g, o = jnp.split(from_input + from_hidden, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru_step(from_input: jax.Array, from_hidden: jax.Array, state: State) -> State:
    """h' = (1 − z) n + z h; the gates in the order r, z, n, and n = tanh(from_input + r · from_hidden).

    The reset gate r multiplies the hidden bias too, so the two biases of n cannot be summed into one.
    """
    (h,) = state
    input_r, input_z, input_n = jnp.split(from_input, 3, axis=-1)
    hidden_r, hidden_z, hidden_n = jnp.split(from_hidden, 3, axis=-1)
    r = jax.nn.sigmoid(input_r + hidden_r)
    z = jax.nn.sigmoid(input_z + hidden_z)
    n = jnp.tanh(input_n + r * hidden_n)
    return ((1 - z) * n + z * h,)
