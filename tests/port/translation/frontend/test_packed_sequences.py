"""Packed sequences become padded ones with lengths, however they are packed, passed on and unpacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import port
from port.errors import NoPair

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

IDS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 8, 1, 0]])
LENGTHS = torch.tensor([4, 2, 3])
SORTED = torch.tensor([4, 3, 1])
CODES = (nn.utils.rnn.pack_padded_sequence.__code__, nn.utils.rnn.pad_packed_sequence.__code__)


class Tagger(nn.Module):
    """Lengths in any order, batch first."""

    def __init__(self, layers: int = 1, bidirectional: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4, padding_idx=0)
        self.lstm = nn.LSTM(4, 5, layers, batch_first=True, bidirectional=bidirectional)
        self.out = nn.Linear(10 if bidirectional else 5, 3)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
        packed = pack_padded_sequence(self.embed(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, state = self.lstm(packed)
        features, _ = pad_packed_sequence(packed, batch_first=True)
        return self.out(features), state


class Encoder(nn.Module):
    """Takes and returns packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 5, bidirectional=True)

    def forward(self, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
        packed, state = self.gru(packed)
        return packed, torch.cat([state[-2], state[-1]], dim=1)


class TimeFirst(nn.Module):
    """Another padding value, returned lengths, and an inner module."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.rnn = nn.RNN(4, 3, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        packed, last = self.encoder(nn.utils.rnn.pack_padded_sequence(x, lengths))
        features, given = pad_packed_sequence(packed, padding_value=-1.5, total_length=x.size(0) + 2)
        other = self.rnn(pack_padded_sequence(x, lengths))[1]
        plain, _ = pad_packed_sequence(pack_padded_sequence(x, lengths), batch_first=True)
        return features, given, last, other, plain


class OfItsParts(nn.Module):
    """A layer on the packed data alone, and a packed sequence rebuilt from its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gru = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Tensor, lengths: list[int]) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        _, state = self.gru(PackedSequence(self.linear(packed.data), packed.batch_sizes))
        return state


class TakesPacked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 5)

    def forward(self, packed: PackedSequence) -> Tensor:
        return self.gru(packed)[1]


class Held(TakesPacked):
    def __init__(self) -> None:
        super().__init__()
        self.packed = pack_padded_sequence(torch.randn(4, 3, 4), SORTED)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(self.packed)[1] + x


def agrees(module: nn.Module, *args: Any) -> port.Translation:
    made = port.translate(module, args)
    assert made.proof is not None and made.proof.agrees and not made.unwritten, str(made.proof)
    assert (nn.utils.rnn.pack_padded_sequence.__code__, nn.utils.rnn.pad_packed_sequence.__code__) == CODES
    return made


@pytest.mark.sweep
def test_a_tagger() -> None:
    made = agrees(Tagger(), IDS, LENGTHS)
    assert "self.lstm(" in made.source and "lengths=lengths" in made.source


@pytest.mark.sweep
def test_other_lengths_than_those_of_the_example() -> None:
    module, lengths = Tagger(), torch.tensor([1, 4, 2])
    made = port.translate(module, (IDS, LENGTHS))
    with torch.no_grad():
        expected = module.eval()(IDS, lengths)[0].numpy()
    made.module.eval()
    ours = np.asarray(made.module(IDS.numpy(), lengths.numpy())[0])
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert np.abs(np.asarray(made.module(IDS.numpy(), LENGTHS.numpy())[0]) - expected).max() > 1e-3


@pytest.mark.sweep
def test_layers_and_directions() -> None:
    agrees(Tagger(layers=2, bidirectional=True), IDS, LENGTHS)


@pytest.mark.sweep
def test_time_first() -> None:
    agrees(TimeFirst(), torch.randn(4, 3, 4), SORTED)


@pytest.mark.sweep
def test_made_of_its_parts() -> None:
    agrees(OfItsParts(), torch.randn(3, 4, 4), [4, 3, 1])


class Mixed(nn.Module):
    """A time-first layer on a batch-first sequence; outputs and input are unpacked."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 4)
        self.other = nn.GRU(4, 3, batch_first=True)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        first, _ = self.gru(input=packed)
        handed_on = (packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        again = PackedSequence(torch.tanh(packed.data) + first.data, *handed_on)
        shifted = packed._replace(data=self.linear(first.data))
        plain, _ = pad_packed_sequence(shifted, batch_first=True)
        return self.other(again)[1], plain


@pytest.mark.sweep
def test_layouts_that_differ() -> None:
    agrees(Mixed(), torch.randn(3, 4, 4), LENGTHS)


class OfNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        ids, _ = pad_packed_sequence(pack_padded_sequence(ids, lengths, batch_first=True), batch_first=True)
        return self.embed(ids)


@pytest.mark.sweep
def test_whole_numbers_stay_whole() -> None:
    agrees(OfNumbers(), IDS + 1, SORTED)


class ReadsTheOrder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.gru(packed)[1].index_select(1, packed.sorted_indices)


class Own(nn.GRU):
    def forward(self, input: Any, hx: Any = None) -> Any:
        return super().forward(input, hx)[1]


class OwnLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = Own(4, 5, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.gru(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))


@pytest.mark.parametrize(
    ("module", "why"),
    [(ReadsTheOrder(), "the order of a packed batch is read"), (OwnLayer(), "Own receives a packed sequence, and")],
    ids=["order", "own layer"],
)
def test_what_only_a_packed_one_has_is_refused(module: nn.Module, why: str) -> None:
    with pytest.raises(NoPair, match=why):
        port.translate(module, (torch.randn(3, 4, 4), LENGTHS))


@pytest.mark.sweep
def test_W28_a_batch_padded_beyond_its_longest_is_told() -> None:
    made = port.translate(Tagger(), (IDS, torch.tensor([3, 2, 3])))
    assert made.proof is not None and not made.proof.agrees
    assert "output 0 has shape (3, 4, 3), but the original's has (3, 3, 3)" in str(made.proof)
    assert "W28" in made.notes


@pytest.mark.parametrize(
    ("module", "given"),
    [(TakesPacked(), pack_padded_sequence(torch.randn(4, 3, 4), SORTED)), (Held(), torch.randn(1, 3, 5))],
    ids=["given", "held"],
)
def test_what_is_packed_elsewhere_is_refused(module: nn.Module, given: Any) -> None:
    with pytest.raises(NoPair, match=r"packed sequence.*call pack_padded_sequence in its forward"):
        port.translate(module, (given,))
