"""A translator of sentences: a packed GRU reads, a GRU cell writes, additive attention over what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from port.nn import GRU, GRUCell

from .fault import Fault, Twin

WORDS, WIDTH, HIDDEN, KEYS = 11, 6, 5, 4


class Encoder(nn.Module):
    """Words (N, L) and their lengths (N,) → what was read (N, L, 10), and the first state (N, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.bridge = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Linear(2 * HIDDEN, HIDDEN)
        self.gru = nn.GRU(WIDTH, HIDDEN, bidirectional=True, batch_first=True)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        memory, states = self.gru(packed)
        memory, _ = pad_packed_sequence(memory, batch_first=True)
        return memory, torch.tanh(self.bridge(torch.cat([states[0], states[1]], -1)))


class Attention(nn.Module):
    """Keys (N, L, 4), what was read (N, L, 10), a state (N, 5) and a mask (N, L) → (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(2 * HIDDEN, KEYS, bias=False), nn.Linear(HIDDEN, KEYS)
        self.energy = nn.Linear(KEYS, 1, bias=False)

    def forward(self, keys: torch.Tensor, memory: torch.Tensor, state: torch.Tensor, mask: torch.Tensor) -> Any:
        logits = self.energy(torch.tanh(keys + self.query(state)[:, None]))[..., 0]
        weights = logits.masked_fill(~mask, float("-inf")).softmax(-1)
        return (weights[:, None] @ memory)[:, 0], weights


class Seq2Seq(nn.Module):
    """Words (N, L), their lengths (N,) and targets (N, M) → logits (N, M − 1, 11)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.attention = Encoder(), Attention()
        self.embed, self.cell = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.GRUCell(WIDTH + 2 * HIDDEN, HIDDEN)
        self.pre, self.out = nn.Linear(3 * HIDDEN + WIDTH, HIDDEN), nn.Linear(HIDDEN, WORDS)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        memory, state = self.encoder(words, lengths)
        mask = torch.arange(memory.shape[1]) < lengths[:, None]
        keys, outputs = self.attention.key(memory), []
        for place in range(targets.shape[1] - 1):
            word = self.embed(targets[:, place])
            context, _ = self.attention(keys, memory, state, mask)
            state = self.cell(torch.cat([word, context], -1), state)
            outputs.append(self.out(torch.tanh(self.pre(torch.cat([state, context, word], -1)))))
        return torch.stack(outputs, 1)


def blocked(logits: jax.Array, mask: jax.Array) -> jax.Array:
    return jnp.where(mask, logits, -jnp.inf)


class FlaxEncoder(nnx.Module):
    """The same; ``last`` takes both states from the last word's place."""

    def __init__(self, *, last: bool) -> None:
        rngs = nnx.Rngs(0)
        self.embed, self.bridge = nnx.Embed(WORDS, WIDTH, rngs=rngs), nnx.Linear(2 * HIDDEN, HIDDEN, rngs=rngs)
        self.gru, self.last = GRU(WIDTH, HIDDEN, bidirectional=True, batch_first=True, rngs=rngs), last

    def __call__(self, words: jax.Array, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
        memory, states = self.gru(self.embed(words), lengths=lengths)
        both = jnp.concatenate([states[0], states[1]], -1)
        both = memory[jnp.arange(len(memory)), lengths - 1] if self.last else both
        return memory, jnp.tanh(self.bridge(both))


class FlaxAttention(nnx.Module):
    """The same."""

    def __init__(self, masked: Callable[[jax.Array, jax.Array], jax.Array], scale: float) -> None:
        rngs = nnx.Rngs(0)
        self.key, self.query = (
            nnx.Linear(2 * HIDDEN, KEYS, use_bias=False, rngs=rngs),
            nnx.Linear(HIDDEN, KEYS, rngs=rngs),
        )
        self.energy, self.masked, self.scale = nnx.Linear(KEYS, 1, use_bias=False, rngs=rngs), masked, scale

    def __call__(self, keys: jax.Array, memory: jax.Array, state: jax.Array, mask: jax.Array) -> jax.Array:
        logits = self.energy(jnp.tanh(keys + self.query(state)[:, None]))[..., 0] * self.scale
        return jnp.einsum("nl,nld->nd", jax.nn.softmax(self.masked(logits, mask)), memory)


class FlaxSeq2Seq(nnx.Module):
    """The same."""

    def __init__(
        self,
        *,
        last: bool = False,
        masked: Callable[[jax.Array, jax.Array], jax.Array] = blocked,
        scale: float = 1.0,
        longer: int = 0,
        first: Callable[[jax.Array], jax.Array] = lambda state: state,
        shift: int = 0,
        before: bool = False,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.encoder, self.attention = FlaxEncoder(last=last), FlaxAttention(masked, scale)
        self.embed, self.cell = nnx.Embed(WORDS, WIDTH, rngs=rngs), GRUCell(WIDTH + 2 * HIDDEN, HIDDEN, rngs=rngs)
        self.pre, self.out = nnx.Linear(3 * HIDDEN + WIDTH, HIDDEN, rngs=rngs), nnx.Linear(HIDDEN, WORDS, rngs=rngs)
        self.longer, self.first, self.shift, self.before = longer, first, shift, before

    def __call__(self, words: jax.Array, lengths: jax.Array, targets: jax.Array) -> jax.Array:
        memory, state = self.encoder(words, lengths)
        mask, state = jnp.arange(memory.shape[1]) < lengths[:, None] + self.longer, self.first(state)
        keys, outputs = self.attention.key(memory), []
        for place in range(targets.shape[1] - 1):
            word = self.embed(targets[:, place + self.shift])
            context, old = self.attention(keys, memory, state, mask), state
            state = self.cell(jnp.concatenate([word, context], -1), state)
            taken = jnp.concatenate([old if self.before else state, context, word], -1)
            outputs.append(self.out(jnp.tanh(self.pre(taken))))
        return jnp.stack(outputs, 1)


def sentences() -> tuple[torch.Tensor, ...]:
    generator, lengths = torch.Generator().manual_seed(4), torch.tensor([3, 6, 4])
    words = torch.randint(1, WORDS, (3, 6), generator=generator) * (torch.arange(6) < lengths[:, None])
    return words, lengths, torch.randint(1, WORDS, (3, 4), generator=generator)


SEQ2SEQ = Twin("Seq2Seq", Seq2Seq, FlaxSeq2Seq, sentences)

FAULTS = (
    Fault("states of the last word's place", SEQ2SEQ, "encoder.bridge", ("another-place",), {"last": True}),
    Fault("no first state", SEQ2SEQ, "attention.query", ("zeros",), {"first": jnp.zeros_like}),
    Fault("targets one place ahead", SEQ2SEQ, "embed", ("position-offset",), {"shift": 1}),
    Fault("state before the step", SEQ2SEQ, "pre", ("another-operand",), {"before": True}),
    Fault("logits scaled", SEQ2SEQ, "attention", ("scale-added",), {"scale": 0.5}),
    Fault(
        "zeros for blocked logits",
        SEQ2SEQ,
        "attention",
        ("mask-value",),
        {"masked": lambda logits, mask: jnp.where(mask, logits, 0.0)},
    ),
    Fault("mask one place longer", SEQ2SEQ, "attention", ("another-function",), {"longer": 1}),
)
