"""A classifier of padded sequences: an embedding with short rows, a packed GRU, a cell."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from port.nn import GRU, Embedding, LSTMCell
from port.nn.recurrent_steps import gru_step

from .fault import Fault, Twin

WIDTH, HIDDEN, WORDS = 6, 5, 9


class Reader(nn.Module):
    """Words (N, L) and their lengths (N,) → (N, L, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.topics = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH, max_norm=1.5)
        self.gru = nn.GRU(WIDTH, HIDDEN, bidirectional=True)
        self.plain, self.cell = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True), nn.LSTMCell(HIDDEN, HIDDEN)
        self.fc = nn.Linear(2 * HIDDEN, 4)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.topics(words)
        packed, _ = self.gru(pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False))
        x, _ = pad_packed_sequence(packed, batch_first=True)
        steps, _ = self.plain(x)
        last, _ = self.cell(steps[:, -1], (steps[:, 0], steps[:, 1]))
        return self.fc(torch.cat([steps, last[:, None].expand_as(steps)], -1))


class ResetBefore(GRU):
    """n = tanh(W_in x + b_in + W_hn (r · h) + b_hn)."""

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> Any:
        weight, bias = self.weight_hh_l0[...], self.bias_hh_l0[...]

        def step(from_input: jax.Array, from_hidden: jax.Array, state: Any) -> Any:
            (h,) = state
            i, g = jnp.split(from_input, 3, -1), jnp.split(from_hidden, 3, -1)
            r, z = jax.nn.sigmoid(i[0] + g[0]), jax.nn.sigmoid(i[1] + g[1])
            n = jnp.tanh(i[2] + self.new(r, h, weight[2 * HIDDEN :].T, bias[2 * HIDDEN :]))
            return ((1 - z) * n + z * h,)

        output, (last,) = self._run(step, x, None, None, (HIDDEN,))
        return output, last

    def new(self, r: jax.Array, h: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
        return (r * h) @ weight + bias


class BiasOutside(ResetBefore):
    """n = tanh(W_in x + b_in + r · (W_hn h) + b_hn)."""

    def new(self, r: jax.Array, h: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
        return r * (h @ weight) + bias


class OtherGates(GRU):
    """Gates in the order z, r, n, as Keras has them."""

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> Any:
        def step(from_input: jax.Array, from_hidden: jax.Array, state: Any) -> Any:
            turned = [jnp.concatenate([p[1], p[0], p[2]], -1) for p in map(_thirds, (from_input, from_hidden))]
            return gru_step(*turned, state)

        output, (last,) = self._run(step, x, None, None, (HIDDEN,))
        return output, last


class OneBias(GRU):
    """Without the hidden bias, as nnx.GRUCell."""

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> Any:
        def step(from_input: jax.Array, from_hidden: jax.Array, state: Any) -> Any:
            return gru_step(from_input, from_hidden - self.bias_hh_l0[...], state)

        output, (last,) = self._run(step, x, None, None, (HIDDEN,))
        return output, last


def _thirds(gates: jax.Array) -> list[jax.Array]:
    return jnp.split(gates, 3, -1)


class Forgetting(LSTMCell):
    """An LSTM cell that adds 1 to its forget gate."""

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> Any:
        bias = self.bias_ih[...]
        self.bias_ih[...] = bias.at[HIDDEN : 2 * HIDDEN].add(1.0)
        result = super().__call__(x, *args, **kwargs)
        self.bias_ih[...] = bias
        return result


class FlaxReader(nnx.Module):
    """The same."""

    def __init__(
        self,
        *,
        short: bool = True,
        reads_padding: bool = False,
        plain: type[GRU] = GRU,
        cell: type[LSTMCell] = LSTMCell,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.words = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.topics = Embedding(WORDS, WIDTH, max_norm=1.5 if short else None, rngs=rngs)
        self.gru, self.reads_padding = GRU(WIDTH, HIDDEN, bidirectional=True, rngs=rngs), reads_padding
        self.plain = plain(2 * HIDDEN, HIDDEN, batch_first=True, rngs=rngs)
        self.cell, self.fc = cell(HIDDEN, HIDDEN, rngs=rngs), nnx.Linear(2 * HIDDEN, 4, rngs=rngs)

    def __call__(self, words: jax.Array, lengths: jax.Array) -> jax.Array:
        x = (self.words(words) + self.topics(words)).swapaxes(0, 1)
        x, _ = self.gru(x, lengths=None if self.reads_padding else lengths)
        steps, _ = self.plain(x.swapaxes(0, 1))
        last, _ = self.cell(steps[:, -1], (steps[:, 0], steps[:, 1]))
        last = jnp.broadcast_to(last[:, None], steps.shape)
        return self.fc(jnp.concatenate([steps, last], -1))


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([3, 6, 5, 2])
    words = torch.randint(1, WORDS, (4, 6), generator=torch.Generator().manual_seed(4))
    return words * (torch.arange(6) < lengths[:, None]), lengths


GRU_TWIN = Twin("GRU", Reader, FlaxReader, padded)

FAULTS = (
    Fault("reset gate before the product", GRU_TWIN, "plain", ("reset-before-product",), {"plain": ResetBefore}),
    Fault(
        "hidden bias outside of the reset gate",
        GRU_TWIN,
        "plain",
        ("hidden-bias-outside-reset",),
        {"plain": BiasOutside},
    ),
    Fault("gate order of a GRU", GRU_TWIN, "plain", ("gate-order",), {"plain": OtherGates}),
    Fault("hidden bias missing", GRU_TWIN, "plain", ("bias-missing",), {"plain": OneBias}),
    Fault("forget bias", GRU_TWIN, "cell", ("forget-bias",), {"cell": Forgetting}),
    Fault("padding read", GRU_TWIN, "plain", ("padding-read",), {"reads_padding": True}),
    Fault("rows not shortened", GRU_TWIN, "topics", ("max-norm-missing",), {"short": False}),
)
