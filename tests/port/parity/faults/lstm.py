"""A classifier of sequences: an embedding, two layers of an LSTM, the last step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from flax import nnx
from torch import nn

from port.nn import LSTM, Embedding

from .fault import Fault, Twin, at, fresh

WIDTH, HIDDEN, WORDS = 6, 5, 9


class Classifier(nn.Module):
    """Words (N, L) → (N, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS + 1, WIDTH, padding_idx=2)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, num_layers=2, batch_first=True)
        self.norm, self.fc = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        steps, _ = self.lstm(self.words(words))
        return torch.log_softmax(self.fc(self.norm(steps[:, -1])), 1)


class FromTheEnd(LSTM):
    """Runs through the sequence backwards."""

    def __call__(self, input: jax.Array, *args: Any, **kwargs: Any) -> Any:
        steps, state = super().__call__(input[:, ::-1], *args, **kwargs)
        return steps[:, ::-1], state


class FlaxClassifier(nnx.Module):
    """The same."""

    def __init__(
        self,
        *,
        lstm: type[LSTM] = LSTM,
        epsilon: float = 1e-5,
        step: Callable[[jax.Array], jax.Array] = lambda steps: steps[:, -1],
        axis: int = 1,
        next_word: int = 0,
        padded: bool = True,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.words = Embedding(WORDS + 1, WIDTH, padding_idx=2, rngs=rngs)
        if not padded:
            self.words = nnx.Embed(WORDS + 1, WIDTH, rngs=rngs)
        self.lstm = lstm(WIDTH, HIDDEN, num_layers=2, batch_first=True, rngs=rngs)
        self.norm = nnx.LayerNorm(HIDDEN, epsilon=epsilon, use_fast_variance=False, rngs=rngs)
        self.fc, self.step, self.axis, self.next = nnx.Linear(HIDDEN, 4, rngs=rngs), step, axis, next_word

    def __call__(self, words: jax.Array) -> jax.Array:
        steps, _ = self.lstm(self.words(words + self.next))
        return jax.nn.log_softmax(self.fc(self.norm(self.step(steps))), self.axis)


def sequences() -> torch.Tensor:
    return torch.randint(0, WORDS, (4, 6), generator=torch.Generator().manual_seed(4))


LSTM_TWIN = Twin("LSTM", Classifier, FlaxClassifier, sequences)


def gates(order: tuple[int, ...]) -> Callable[[Any], None]:
    """The four gates of every weight in another order."""

    def change(module: Any) -> None:
        for path, tensor in nnx.to_flat_state(nnx.state(module.lstm, nnx.Param)):
            axis = next(n for n, length in enumerate(tensor.shape) if length == 4 * HIDDEN)
            name = "lstm." + ".".join(map(str, path))
            at(name, lambda w, axis=axis: np.concatenate([np.split(w, 4, axis)[g] for g in order], axis))(module)

    return change


FAULTS = (
    Fault("gate order", LSTM_TWIN, "lstm", ("gate-order", "weights-reordered"), change=gates((0, 2, 1, 3))),
    Fault("sequence reversed", LSTM_TWIN, "lstm", ("sequence-reversed",), {"lstm": FromTheEnd}),
    Fault("epsilon", LSTM_TWIN, "norm", ("epsilon",), {"epsilon": 1e-6}),
    Fault("first step for the last", LSTM_TWIN, "norm", ("other-end",), {"step": lambda steps: steps[:, 0]}),
    Fault("mean for the last step", LSTM_TWIN, "norm", ("mean-for-one",), {"step": lambda steps: steps.mean(1)}),
    Fault("softmax along another axis", LSTM_TWIN, "", ("softmax-axis",), {"axis": 0}),
    Fault("padding row trained", LSTM_TWIN, "words", ("padding-row-trained",), {"padded": False}),
    Fault("indices off by one", LSTM_TWIN, "words", ("position-offset",), {"next_word": 1}),
    Fault("weights not loaded", LSTM_TWIN, "fc", ("weights-not-loaded",), change=fresh("fc.kernel")),
)
