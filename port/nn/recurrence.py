"""Base class of RNN, LSTM and GRU: the parameters, and the loops over layers, directions and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.initializers import torch_bias
from port.nn.recurrent_steps import State, Step


class Recurrent(nnx.Module):
    """The base of port.nn.RNN, LSTM and GRU, with torch's parameters, under torch's names and in torch's layouts.

    Parameters of layer k (with the suffix ``_reverse`` for its backward direction): weight_ih_l{k} (gates ·
    hidden_size, inputs), weight_hh_l{k} (gates · hidden_size, state), bias_ih_l{k} and bias_hh_l{k} (gates ·
    hidden_size,), and weight_hr_l{k} (proj_size, hidden_size) where there is a projection. All are drawn from
    U(−1/√hidden_size, 1/√hidden_size), as torch.nn.RNNBase.reset_parameters does.

    Args:
        gates: of the recurrence: 1 (RNN), 3 (GRU) or 4 (LSTM).
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: number of stacked recurrences.
        bias: learn both biases.
        batch_first: batched sequences are (N, L, features), not (L, N, features). States are not affected.
        dropout: rate of the dropout between layers; after the last there is none.
        bidirectional: a second recurrence runs from the end to the beginning; the features of both are concatenated.
        proj_size: features that an LSTM's output is projected to; 0 for no projection.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        metadata: name of a parameter without layer and direction → its metadata, from `port.nn.logical_axes`. RNN, GRU
            and LSTM take it as ``weight_ih_metadata`` and so on.
        rngs: draws the parameters, and the dropout where there is one.

    Raises:
        UsageError: no layers, a projection that is not smaller than the state, or a rate outside [0, 1].
    """

    def __init__(
        self,
        gates: int,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        dtype: Any,
        param_dtype: Any,
        metadata: Mapping[str, Mapping[str, Any]],
        rngs: nnx.Rngs,
    ) -> None:
        if min(input_size, hidden_size, num_layers) < 1:
            sizes = f"input_size {input_size}, hidden_size {hidden_size} and num_layers {num_layers}"
            raise UsageError(f"{type(self).__name__} takes sizes of at least 1, got {sizes}")
        if not 0 <= proj_size < hidden_size:
            raise UsageError(f"proj_size must be from 0 to below hidden_size {hidden_size}, got {proj_size}")
        if not 0 <= dropout <= 1:
            raise UsageError(f"dropout is a probability, got {dropout}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self.dtype = dtype
        self.dropout = nnx.Dropout(dropout, rngs=rngs if dropout else None)
        self.weight_ih_l0: nnx.Param[jax.Array]

        draw = torch_bias(hidden_size)
        rows = gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else len(self._directions) * self._output_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, self._output_size)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in self._directions:
                for name, shape in shapes.items():
                    param = nnx.Param(draw(rngs.params(), shape, param_dtype), **metadata[name])
                    setattr(self, f"{name}_l{layer}{suffix}", param)

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _run(
        self, step: Step, x: jax.Array, initial: State | None, lengths: jax.Array | None, sizes: tuple[int, ...]
    ) -> tuple[jax.Array, State]:
        """Run all layers over time; return the last layer's outputs, and the last state of each layer and direction.

        Args:
            step: the recurrence.
            x: the sequence, in the user's layout.
            initial: the states to start from, in the user's layout.
            lengths: see `port.nn.RNN`.
            sizes: features of each part of the state.
        """
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            layout = "(N, L, features)" if self.batch_first else "(L, N, features)"
            raise UsageError(
                f"{type(self).__name__} takes {layout}, or (L, features) of one sequence, "
                f"with {self.input_size} features; got shape {x.shape}"
            )
        batched = x.ndim == 3
        dtype = self.dtype or jnp.result_type(x, self.weight_ih_l0[...])
        x = x.astype(dtype)
        if batched and self.batch_first:
            x = x.swapaxes(0, 1)
        batch = x.shape[1:-1]  # (N,), or () for one sequence
        initial = self._initial(initial, batch, sizes, dtype)
        within = None if lengths is None else self._within(lengths, x.shape[0], batch)
        if within is not None:
            x = jnp.where(within, x, 0)  # values in the padding, even NaN, reach no gradient

        last: list[State] = []
        for layer in range(self.num_layers):
            if layer > 0:
                x = self.dropout(x)
            outputs = []
            for suffix in self._directions:
                start = tuple(part[len(last)] for part in initial)
                state, output = self._scan(step, x, start, f"_l{layer}{suffix}", within)
                last.append(state)
                outputs.append(output)
            x = jnp.concatenate(outputs, axis=-1)
        if batched and self.batch_first:
            x = x.swapaxes(0, 1)
        return x, tuple(jnp.stack(parts) for parts in zip(*last, strict=True))

    def _initial(self, initial: State | None, batch: tuple[int, ...], sizes: tuple[int, ...], dtype: Any) -> State:
        shapes = [(self.num_layers * len(self._directions), *batch, size) for size in sizes]
        if initial is None:
            return tuple(jnp.zeros(shape, dtype) for shape in shapes)
        if [part.shape for part in initial] != shapes:
            raise UsageError(
                f"{type(self).__name__} starts from (layers · directions, batch, features) of shape "
                f"{' and '.join(map(str, shapes))}, got {' and '.join(str(part.shape) for part in initial)}"
            )
        return tuple(part.astype(dtype) for part in initial)

    def _within(self, lengths: jax.Array, steps: int, batch: tuple[int, ...]) -> jax.Array:
        """Mark the steps within each sequence: (L, N, 1)."""
        lengths = jnp.asarray(lengths)
        if lengths.shape != batch or not jnp.issubdtype(lengths.dtype, jnp.integer):
            raise UsageError(f"lengths must be integers of shape {batch}, got {lengths.dtype} of shape {lengths.shape}")
        return (jnp.arange(steps).reshape(-1, *(1 for _ in batch)) < lengths)[..., None]

    def _scan(
        self, step: Step, x: jax.Array, state: State, suffix: str, within: jax.Array | None
    ) -> tuple[State, jax.Array]:
        """Run one layer in one direction: x (L, N, inputs) → the last state, and the outputs (L, N, state)."""

        def weight(name: str) -> jax.Array:
            return getattr(self, name + suffix)[...].astype(x.dtype)

        # The input's part of the gates needs no loop: one large matrix product.
        from_inputs = x @ weight("weight_ih").T
        if self.bias:
            from_inputs = from_inputs + weight("bias_ih")
        weight_hh = weight("weight_hh").T
        bias_hh = weight("bias_hh") if self.bias else None
        weight_hr = weight("weight_hr").T if self.proj_size else None

        def advance(state: State, now: tuple[jax.Array, jax.Array | None]) -> tuple[State, jax.Array]:
            from_input, inside = now
            from_hidden = state[0] @ weight_hh
            if bias_hh is not None:
                from_hidden = from_hidden + bias_hh
            after = step(from_input, from_hidden, state)
            if weight_hr is not None:
                after = (after[0] @ weight_hr, *after[1:])
            if inside is None:
                return after, after[0]
            # Backwards, the padding comes first: the state is kept there until the sequence's end.
            after = tuple(jnp.where(inside, new, old) for new, old in zip(after, state, strict=True))
            return after, jnp.where(inside, after[0], 0)

        return jax.lax.scan(advance, state, (from_inputs, within), reverse=suffix.endswith("_reverse"))
