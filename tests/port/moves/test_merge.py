"""An adapter merged into its weight: as PEFT computes it, also in parts; nothing that does not fit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from port.errors import WeightsMismatch
from port.moves import Branch, EachBranch, Merge, Permute, merge, restriction_of
from port.moves.boxes import cut

RANDOM = np.random.default_rng(0)
WEIGHT, A, B = (RANDOM.normal(size=shape) for shape in ((7, 5), (2, 5), (7, 2)))


def test_it_is_what_the_adapter_adds_to_the_output():
    (merged,) = Merge(1.5)((WEIGHT, A, B))
    x = RANDOM.normal(size=(3, 5))
    wanted = x @ WEIGHT.T + 1.5 * (x @ A.T) @ B.T
    assert np.abs(x @ merged.T - wanted).max() < 1e-13
    for wrong in (Merge(1.0)((WEIGHT, A, B)), Merge(-1.5)((WEIGHT, A, B))):
        assert np.abs(x @ wrong[0].T - wanted).max() > 1e-2


def test_a_convolution_s_factors_are_convolutions():
    weight, down, up = (RANDOM.normal(size=s) for s in ((6, 4, 3, 2), (2, 4, 3, 2), (6, 2, 1, 1)))
    (merged,) = Merge(0.5)((weight, down, up))
    x = torch.from_numpy(RANDOM.normal(size=(2, 4, 8, 7)))
    conv = torch.nn.functional.conv2d
    wanted = conv(x, torch.from_numpy(weight)) + 0.5 * conv(conv(x, torch.from_numpy(down)), torch.from_numpy(up))
    assert (conv(x, torch.from_numpy(merged)) - wanted).abs().max() < 1e-12


def test_it_is_rounded_once_to_the_weight_s_own_dtype(monkeypatch):
    weight = WEIGHT.astype(ml_dtypes.bfloat16)
    (merged,) = Merge(1.5)((weight, A.astype(np.float32), B.astype(np.float32)))
    exact = weight.astype(np.float64) + 1.5 * B @ A
    assert merged.dtype == weight.dtype
    assert merged.tobytes() == exact.astype(np.float32).astype(ml_dtypes.bfloat16).tobytes()
    twice = weight + (1.5 * B @ A).astype(ml_dtypes.bfloat16)
    assert merged.tobytes() != twice.tobytes()
    monkeypatch.setattr(merge, "AT_ONCE", 8 * 5 * 3)  # three rows in one go
    (in_parts,) = Merge(1.5)((WEIGHT, A, B))
    assert np.abs(in_parts - (WEIGHT + 1.5 * B @ A)).max() < 1e-14


@pytest.mark.parametrize("box", [(range(2, 5), range(1, 4)), (range(7), range(2, 3)), (range(3, 3), range(5))])
def test_a_part_is_of_the_factors_parts(box):
    shapes = (WEIGHT.shape, A.shape, B.shape)
    part = restriction_of((Merge(1.5),), shapes, (box,))
    assert part.needs == (box, (range(2), box[1]), (box[0], range(2)))
    (made,) = part.make(tuple(cut(array, need) for array, need in zip((WEIGHT, A, B), part.needs, strict=True)))
    assert made.shape == tuple(map(len, box))
    assert np.abs(made - cut(WEIGHT + 1.5 * B @ A, box)).max(initial=0) < 1e-14


def test_a_part_of_a_convolution_and_of_a_weight_the_other_way_round():
    moves = (EachBranch((Branch(1, (Permute((1, 0)),), 1), Branch(2, (), 2))), Merge(2.0), Permute((1, 0)))
    part = restriction_of(moves, (WEIGHT.T.shape, A.shape, B.shape), ((range(1, 3), range(4, 7)),))
    assert part.needs == ((range(1, 3), range(4, 7)), (range(2), range(1, 3)), (range(4, 7), range(2)))
    whole = (WEIGHT.T, A, B)
    (made,) = part.make(tuple(cut(array, need) for array, need in zip(whole, part.needs, strict=True)))
    assert np.abs(made - (WEIGHT + 2 * B @ A).T[1:3, 4:7]).max() < 1e-14
    shapes = ((6, 4, 3, 2), (2, 4, 3, 2), (6, 2, 1, 1))
    needs = restriction_of((Merge(1.0),), shapes, ((range(1), range(4), range(2, 3), range(2)),)).needs
    assert needs[1:] == ((range(2), range(4), range(2, 3), range(2)), (range(1), range(2), range(1), range(1)))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((7, 5), (2, 5)), "takes 3 arrays, got 2"),
        (((7, 5), (7, 2), (2, 5)), r"A \(7, 2\) and B \(2, 5\) are of another weight than \(7, 5\)"),
        (((7, 5), (5, 2), (2, 7)), "are of another weight"),
        (((7, 5), (2, 5), (7, 3)), r"A \(2, 5\) has rank 2, and B \(7, 3\) has rank 3"),
        (((7,), (2,), (7,)), "of equal rank, two or more"),
        (((7, 5, 3), (2, 5, 3), (7, 2, 3)), "are of another weight"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, message):
    with pytest.raises(WeightsMismatch, match=message):
        Merge(1.0).shapes(shapes)
    with pytest.raises(WeightsMismatch, match=message):
        Merge(1.0)(tuple(map(np.zeros, shapes)))


def test_a_quantised_weight_is_not_added_to():
    for dtype in (np.int8, ml_dtypes.float8_e4m3fn):
        with pytest.raises(WeightsMismatch, match="quantised: widen it by its scale"):
            Merge(1.0)((WEIGHT.astype(dtype), A, B))


def test_it_does_not_come_apart():
    with pytest.raises(WeightsMismatch, match="cannot be separated"):
        Merge(1.0).inverse()
    with pytest.raises(WeightsMismatch, match="a finite scaling, got inf"):
        Merge(np.inf)
