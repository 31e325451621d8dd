"""torch.nn.RNN, LSTM and GRU: a recurrence over a whole sequence, with torch's parameters.

flax.nnx.RNN and Bidirectional wrap a cell: one layer, one bias (none in GRUCell's hidden part), no projection, no
dropout between layers; see port.nn.recurrent_cells for what the cells lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn.recurrence import Recurrent
from port.nn.recurrent_steps import gru_step, lstm_step, rnn_step


class RNN(Recurrent):
    """torch.nn.RNN: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it, over a sequence.

    Arguments, parameters and their initial values: `Recurrent`; ``nonlinearity`` is "tanh" or "relu".
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
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
            1,
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            proj_size=0,
            dtype=dtype,
            param_dtype=param_dtype,
            metadata={
                "weight_ih": weight_ih_metadata,
                "weight_hh": weight_hh_metadata,
                "bias_ih": bias_ih_metadata,
                "bias_hh": bias_hh_metadata,
            },
            rngs=rngs,
        )
        rnn_step(nonlinearity)  # raises for an unknown name here, not at the first call
        self.nonlinearity = nonlinearity

    def __call__(
        self, x: jax.Array, hx: jax.Array | None = None, *, lengths: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Run over sequences; D is 2 if bidirectional, else 1.

        Args:
            x: (L, N, input_size), (N, L, input_size) if ``batch_first``, or (L, input_size) for one sequence.
            hx: the initial states, (D · num_layers, N, hidden_size), without N for one sequence; zeros by default.
            lengths: length of each sequence of a padded batch, (N,) integers from 1 to L in any order. The result is
                that of torch's `pack_padded_sequence` and `pad_packed_sequence(total_length=L)`: outputs are zero past
                a sequence's end, h_n is its state there, and the backward direction starts there.

        Returns:
            The last layer's outputs, shaped as x with D · hidden_size features, and h_n, shaped as hx.

        Raises:
            UsageError: a shape not listed above.
        """
        initial = None if hx is None else (hx,)
        output, (h_n,) = self._run(rnn_step(self.nonlinearity), x, initial, lengths, (self.hidden_size,))
        return output, h_n


class GRU(Recurrent):
    """torch.nn.GRU: gates in the order r, z, n, with the hidden bias inside r · (W_hn h + b_hn), over a sequence.

    Arguments, parameters and their initial values: `Recurrent`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
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
            3,
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            proj_size=0,
            dtype=dtype,
            param_dtype=param_dtype,
            metadata={
                "weight_ih": weight_ih_metadata,
                "weight_hh": weight_hh_metadata,
                "bias_ih": bias_ih_metadata,
                "bias_hh": bias_hh_metadata,
            },
            rngs=rngs,
        )

    def __call__(
        self, x: jax.Array, hx: jax.Array | None = None, *, lengths: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """As `RNN.__call__`."""
        initial = None if hx is None else (hx,)
        output, (h_n,) = self._run(gru_step, x, initial, lengths, (self.hidden_size,))
        return output, h_n


class LSTM(Recurrent):
    """torch.nn.LSTM: gates in the order i, f, g, o, the output projected if ``proj_size``, over a sequence.

    Arguments, parameters and their initial values: `Recurrent`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        weight_ih_metadata: Mapping[str, Any] = MappingProxyType({}),
        weight_hh_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_ih_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_hh_metadata: Mapping[str, Any] = MappingProxyType({}),
        weight_hr_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(
            4,
            input_size,
            hidden_size,
            num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            proj_size=proj_size,
            dtype=dtype,
            param_dtype=param_dtype,
            metadata={
                "weight_ih": weight_ih_metadata,
                "weight_hh": weight_hh_metadata,
                "bias_ih": bias_ih_metadata,
                "bias_hh": bias_hh_metadata,
                "weight_hr": weight_hr_metadata,
            },
            rngs=rngs,
        )

    def __call__(
        self,
        x: jax.Array,
        hx: tuple[jax.Array, jax.Array] | None = None,
        *,
        lengths: jax.Array | None = None,
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """As `RNN.__call__`, with two states: initial (h_0, c_0), final (h_n, c_n).

        With a projection, h and each direction's output have proj_size features; c has hidden_size.
        """
        sizes = (self._output_size, self.hidden_size)
        output, (h_n, c_n) = self._run(lstm_step, x, hx, lengths, sizes)
        return output, (h_n, c_n)
