"""torch.nn.RNNCell, LSTMCell and GRUCell: one step of a recurrence, with torch's parameters.

flax.nnx.SimpleCell, LSTMCell and OptimizedLSTMCell have one bias where torch has two. With the sum of the two, outputs
agree but training does not: each of torch's biases gets the whole gradient, so their sum moves twice as far in a step.
flax.nnx.GRUCell has no hidden bias, and so cannot represent torch's. Flax's cells also have other initial
distributions, and take (carry, input) where torch takes (input, state).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.initializers import torch_bias
from port.nn.recurrent_steps import State, Step, gru_step, lstm_step, rnn_step


class Cell(nnx.Module):
    """Base class of the three cells, with torch's parameters, names and layouts.

    Parameters: weight_ih (gates · hidden_size, input_size), weight_hh (gates · hidden_size, hidden_size), bias_ih and
    bias_hh (gates · hidden_size,). All are drawn from U(−1/√hidden_size, 1/√hidden_size), as
    torch.nn.RNNCellBase.reset_parameters does.
    """

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        weight_ih_metadata: Mapping[str, Any] = MappingProxyType({}),
        weight_hh_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_ih_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_hh_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        draw = torch_bias(hidden_size)
        rows = self.gates * hidden_size

        def parameter(*shape: int, metadata: Mapping[str, Any]) -> nnx.Param[jax.Array]:
            return nnx.Param(draw(rngs.params(), shape, param_dtype), **metadata)

        self.weight_ih = parameter(rows, input_size, metadata=weight_ih_metadata)
        self.weight_hh = parameter(rows, hidden_size, metadata=weight_hh_metadata)
        self.bias_ih: Any = parameter(rows, metadata=bias_ih_metadata) if bias else nnx.data(None)
        self.bias_hh: Any = parameter(rows, metadata=bias_hh_metadata) if bias else nnx.data(None)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.dtype = dtype

    def _after(self, step: Step, x: jax.Array, state: State | None, parts: int) -> State:
        """Return the state after a step: ``parts`` arrays with x's batch shape and hidden_size features."""
        shape = (*x.shape[:-1], self.hidden_size)
        if x.shape[-1:] != (self.input_size,):
            raise UsageError(f"{type(self).__name__} takes (..., {self.input_size}) features, got shape {x.shape}")
        dtype = self.dtype or jnp.result_type(x, self.weight_ih[...])
        if state is None:
            state = (jnp.zeros(shape, dtype),) * parts
        for part in state:
            if part.shape != shape:
                raise UsageError(f"{type(self).__name__} takes a state of shape {shape} here, got {part.shape}")
        state = tuple(part.astype(dtype) for part in state)
        from_input = x.astype(dtype) @ self.weight_ih[...].astype(dtype).T
        from_hidden = state[0] @ self.weight_hh[...].astype(dtype).T
        if self.bias:
            from_input = from_input + self.bias_ih[...].astype(dtype)
            from_hidden = from_hidden + self.bias_hh[...].astype(dtype)
        return step(from_input, from_hidden, state)


class RNNCell(Cell):
    """torch.nn.RNNCell: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: learn both biases.
        nonlinearity: "tanh" or "relu".
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        weight_ih_metadata: of weight_ih, from `port.nn.logical_axes`; and so on for each parameter.
        weight_hh_metadata: of weight_hh.
        bias_ih_metadata: of bias_ih.
        bias_hh_metadata: of bias_hh.
        rngs: draws the parameters.

    Raises:
        UnknownChoice: an unknown nonlinearity.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        weight_ih_metadata: Mapping[str, Any] = MappingProxyType({}),
        weight_hh_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_ih_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_hh_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            bias,
            dtype=dtype,
            param_dtype=param_dtype,
            weight_ih_metadata=weight_ih_metadata,
            weight_hh_metadata=weight_hh_metadata,
            bias_ih_metadata=bias_ih_metadata,
            bias_hh_metadata=bias_hh_metadata,
            rngs=rngs,
        )
        rnn_step(nonlinearity)  # raises for an unknown name here, not at the first call
        self.nonlinearity = nonlinearity

    def __call__(self, x: jax.Array, hx: jax.Array | None = None) -> jax.Array:
        """Take a step: (N, input_size) or (input_size,), and a state (N, hidden_size) or (hidden_size,), or zeros.

        Raises:
            UsageError: a wrong number of features, or a state of a wrong shape.
        """
        return self._after(rnn_step(self.nonlinearity), x, None if hx is None else (hx,), 1)[0]


class LSTMCell(Cell):
    """torch.nn.LSTMCell: gates in the order i, f, g, o; c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c').

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: learn both biases.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        weight_ih_metadata: of weight_ih, from `port.nn.logical_axes`; and so on for each parameter.
        weight_hh_metadata: of weight_hh.
        bias_ih_metadata: of bias_ih.
        bias_hh_metadata: of bias_hh.
        rngs: draws the parameters.
    """

    gates = 4

    def __call__(self, x: jax.Array, hx: tuple[jax.Array, jax.Array] | None = None) -> tuple[jax.Array, jax.Array]:
        """Take a step: (N, input_size) or (input_size,), and (h, c), both (N, hidden_size) or (hidden_size,), or zeros.

        Raises:
            UsageError: a wrong number of features, or a state of a wrong shape.
        """
        h, c = self._after(lstm_step, x, hx, 2)
        return h, c


class GRUCell(Cell):
    """torch.nn.GRUCell: gates in the order r, z, n; n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 − z) n + z h.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: learn both biases.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        weight_ih_metadata: of weight_ih, from `port.nn.logical_axes`; and so on for each parameter.
        weight_hh_metadata: of weight_hh.
        bias_ih_metadata: of bias_ih.
        bias_hh_metadata: of bias_hh.
        rngs: draws the parameters.
    """

    gates = 3

    def __call__(self, x: jax.Array, hx: jax.Array | None = None) -> jax.Array:
        """Take a step: (N, input_size) or (input_size,), and a state (N, hidden_size) or (hidden_size,), or zeros.

        Raises:
            UsageError: a wrong number of features, or a state of a wrong shape.
        """
        return self._after(gru_step, x, None if hx is None else (hx,), 1)[0]
