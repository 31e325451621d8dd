"""Chunking: a table in pieces, a recurrent layer in one vector; each option's moves are run on numbers."""

from __future__ import annotations

import numpy as np
import torch
from jax.experimental import rnn

from port.matching.chunking import chunkings
from port.matching.options import Option

from .chains import unit


def moved(option: Option, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    made = {}
    for found in option.found:
        values = tuple(arrays[name] for name in found.torch)
        for move in found.moves:
            values = move(values)
        made |= dict(zip(found.flax, values, strict=True))
    return made


PIECES = {number: np.random.default_rng(number).normal(size=(4, 1 + number)) for number in (10, 2, 9)}


def test_pieces_are_joined_in_the_order_of_their_numbers_along_the_axis_that_is_cut() -> None:
    pieces = [unit(f"part_{number}", "own", weight=array.shape) for number, array in PIECES.items()]
    (option,) = chunkings(pieces, [unit("table", "own", table=(4, 24))], {"table.table": "params"})
    arrays = {f"part_{number}.weight": array for number, array in PIECES.items()}
    joined = moved(option, arrays)["table.table"]
    assert np.array_equal(joined, np.concatenate([PIECES[2], PIECES[9], PIECES[10]], 1))
    for shape in ((4, 23), (5, 24), (24, 4)):
        assert not chunkings(pieces, [unit("table", "own", table=shape)], {"table.table": "params"})


def test_a_table_is_split_into_the_other_sides_pieces() -> None:
    pieces = [unit(f"part_{number}", "embedding", embedding=(1 + number, 4)) for number in PIECES]
    collections = {f"part_{number}.embedding": "params" for number in PIECES}
    (option,) = chunkings([unit("table", "embedding", weight=(24, 4))], pieces, collections)
    table = np.random.default_rng(0).normal(size=(24, 4))
    split = moved(option, {"table.weight": table})
    assert np.array_equal(split["part_2.embedding"], table[:3]) and np.array_equal(
        split["part_10.embedding"], table[13:]
    )


def test_a_vector_holds_a_recurrent_layers_tensors_as_jax_unpacks_them() -> None:
    lstm = torch.nn.LSTM(3, 2, bidirectional=True)
    cells = []
    for end in ("", "_reverse"):
        names = {name: f"lstm.{name}_l0{end}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        shapes = {name: tuple(getattr(lstm, f"{name}_l0{end}").shape) for name in names}
        cell = unit("lstm", "LSTMCell", **shapes)
        object.__setattr__(cell, "names", names)
        cells.append(cell)
    arrays = {f"lstm.{name}": tensor.detach().numpy() for name, tensor in lstm.state_dict().items()}
    size = sum(array.size for array in arrays.values())
    option, other = chunkings(cells, [unit("cudnn", "own", weights=(size,))], {"cudnn.weights": "params"})
    assert option.note == "flattened, weights before biases" and other.note != option.note
    vector = moved(option, arrays)["cudnn.weights"]
    unpacked = rnn.unpack_lstm_weights(vector, 3, 2, 1, True)
    for direction, end in enumerate(("", "_reverse")):
        for given, name in zip(unpacked, ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), strict=True):
            assert np.array_equal(given[direction], arrays[f"lstm.{name}_l0{end}"])
    assert not chunkings(cells, [unit("cudnn", "own", weights=(size + 1,))], {"cudnn.weights": "params"})
