"""Resized inputs: indices, masks and sorted lengths stay valid, and no sample is a copy of another."""

from __future__ import annotations

import torch

from port.translation.frontend.resized_inputs import resized, tensors_of


def test_tensors_are_numbered_as_they_are_flattened() -> None:
    a, b, c = torch.zeros(1), torch.ones(2), torch.full((3,), 2.0)
    assert [t.numel() for t in tensors_of(({"x": a, "y": [b, 5]},), {"z": c})] == [1, 2, 3]


def test_what_indices_masks_and_lengths_are_stays() -> None:
    tokens = torch.tensor([[4, 2, 9]])
    mask = torch.tensor([[True, True, False]])
    lengths = torch.tensor([7, 5, 2])
    (longer, cut, several), _ = resized((tokens, mask, lengths), {}, {(0, 1): 5, (1, 1): 2, (2, 0): 6})
    assert longer.tolist() == [[4, 4, 2, 2, 9]] and cut.tolist() == [[True, True]]
    assert several.tolist() == [7, 7, 5, 5, 2, 2] and several.dtype == torch.int64


def test_repeated_floats_differ_and_keep_their_range() -> None:
    x = torch.rand(2, 3, dtype=torch.float32)
    (made,), _ = resized((x,), {}, {(0, 0): 4})
    assert made.shape == (4, 3) and made.dtype == torch.float32
    assert not torch.equal(made[0], made[1]) and bool((made >= 0).all()) and bool((made <= 1).all())
    again, _ = resized((x,), {}, {(0, 0): 4})
    assert torch.equal(made, again[0])


def test_others_are_the_same_tensors() -> None:
    x, y = torch.rand(2, 3), torch.rand(2)
    (_, other), kwargs = resized((x, y), {"k": 3}, {(0, 1): 1})
    assert other is y and kwargs == {"k": 3}
