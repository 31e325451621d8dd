"""A script that was written for float32, in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F

from port.scripts.recording.in_float64 import InFloat64


@pytest.fixture
def mode() -> Iterator[InFloat64]:
    mode = InFloat64()
    with mode:
        yield mode
    torch.set_default_dtype(torch.float32)


def test_nothing_is_changed_before_it_begins(mode: InFloat64) -> None:
    assert torch.zeros(2).dtype == torch.float32
    with pytest.raises(RuntimeError):
        F.linear(torch.ones(1, 2), torch.ones(1, 2, dtype=torch.float64))


def test_what_meets_a_float64_tensor_becomes_one(mode: InFloat64) -> None:
    mode.begin()
    weight = torch.full((1, 2), 1 / 3)
    held = torch.ones(1, 2, dtype=torch.float32)
    assert weight.dtype == torch.float64 and F.linear(held, weight).dtype == torch.float64
    assert torch.cat([held, weight]).dtype == torch.float64
    target = torch.ones(1, 2, dtype=torch.float32)
    F.binary_cross_entropy(weight.requires_grad_(), target).backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float64
    assert (held * 2).dtype == torch.float32 and torch.arange(3).dtype == torch.int64


def test_what_is_written_into_stays_the_same_tensor(mode: InFloat64) -> None:
    mode.begin()
    held, other = torch.zeros(2, dtype=torch.float32), torch.full((2,), 0.25)
    held += other
    held[0] = other[1]
    held.mul_(other)
    torch.add(held, held, out=held)
    assert held.dtype == torch.float32 and held.tolist() == [0.125, 0.125]


def test_it_can_be_left_for_a_while(mode: InFloat64) -> None:
    """Transforms compute in float32 on both sides."""
    mode.begin()
    with mode.off():
        assert torch.rand(1).dtype == torch.float32
    assert torch.rand(1).dtype == torch.float64
