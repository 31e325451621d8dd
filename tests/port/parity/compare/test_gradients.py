"""Gradients through a mapping: each move's transpose, against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from port.mapping import Entry, Mapping
from port.moves import (
    Addends,
    Branch,
    Copy,
    EachBranch,
    Flip,
    Fold,
    Join,
    Move,
    Order,
    Permute,
    Reshape,
    Split,
    Stack,
    Sum,
)
from port.parity.compare.gradients import gathered, gradients_in_torchs, transposed, untied

from port.moves import Tie  # isort: skip

MOVES: list[tuple[Move, tuple[tuple[int, ...], ...]]] = [
    (Permute((2, 0, 1)), ((2, 3, 4),)),
    (Reshape((2, 6), (3, 4)), ((2, 6),)),
    (Fold(1, (2, 3, 2), (1, 2, 0)), ((5, 12),)),
    (Flip((1,)), ((2, 3),)),
    (Split(0, (2, 3)), ((5, 2),)),
    (Join(1, (2, 3)), ((4, 2), (4, 3))),
    (Stack(1, 3), ((2, 2), (2, 2), (2, 2))),
    (Sum(2), ((2, 3), (2, 3))),
    (Copy(3), ((2, 3),)),
    (Addends(1), ((4,),)),
    (Order((2, 0, 1)), ((1,), (2,), (3,))),
    (EachBranch((Branch(1, (Permute((1, 0)),), 1), Branch(2, (Sum(2),), 1))), ((2, 3), (4,), (4,))),
]


@pytest.mark.parametrize("move", MOVES, ids=lambda case: str(case[0]))
def test_a_move_and_its_transpose(move: tuple[Move, tuple[tuple[int, ...], ...]]) -> None:
    """⟨M x, y⟩ = ⟨x, Mᵀ y⟩."""
    generator = np.random.default_rng(0)
    x = tuple(generator.normal(size=shape) for shape in move[1])
    moved = move[0](x)
    y = tuple(generator.normal(size=array.shape) for array in moved)
    back = transposed(move[0])(y)
    assert _inner(moved, y) == pytest.approx(_inner(x, back), rel=1e-12)


def _inner(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> float:
    return sum(float((u * v).sum()) for u, v in zip(a, b, strict=True))


def test_a_tied_weights_gradient_is_the_sum_over_its_places() -> None:
    in_flax_apart = Entry(("a", "b"), ("p", "q"), (Tie(2), Copy(2)))
    carried = gradients_in_torchs(Mapping((in_flax_apart,)), {"p": np.array([1.0]), "q": np.array([2.0])})
    assert carried["a"] == carried["b"] == 3
    in_torch_apart = Entry(("a", "b"), ("p",), (Tie(2),))
    given = {"a": np.array([1.0]), "b": np.array([2.0])}
    assert gathered(Mapping((in_torch_apart,)), given, {})["b"] == 3
    assert gathered(Mapping((in_torch_apart,)), given, {"b": "a"})["a"] == 1


def test_what_is_tied_on_one_side_only() -> None:
    assert "in Flax tensors of their own" in str(untied(Entry(("a", "b"), ("p", "q"), (Tie(2), Copy(2))), {"b": "a"}))
    assert "tensors of their own in torch" in str(untied(Entry(("a", "b"), ("p",), (Tie(2),)), {}))
    assert untied(Entry(("a", "b"), ("p",), (Tie(2),)), {"b": "a"}) is None
    assert untied(Entry(("a",), ("p",)), {}) is None
