"""The lengths with which tensors are made remember their origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.construction.sizes import Sizes
from port.translation.ir.origin import ConstructorArgument, said
from port.translation.ir.origin_numbers import origin_of, with_origin

DIM = ConstructorArgument(0, "dim")


def sizes(make: Callable[[Any], Tensor], dim: int = 6) -> tuple[list[str], tuple[int, ...]] | None:
    """The origins of a tensor's lengths, and the lengths; None if none is known."""
    with Sizes() as seen:
        made = make(with_origin(dim, DIM))
    found = seen.of(made)
    if found is None:
        return None
    assert found == tuple(made.shape)
    origins = [origin_of(size) for size in found]
    return [str(int(size)) if each is None else said(each) for size, each in zip(found, origins, strict=True)], found


@pytest.mark.parametrize(
    ("make", "lengths"),
    [
        (lambda n: torch.zeros(n), ["dim"]),
        (lambda n: torch.zeros(1, n, 3), ["1", "dim", "3"]),
        (lambda n: torch.ones((n, 2 * n)), ["dim", "2 * dim"]),
        (lambda n: torch.empty(size=(n // 2, n)), ["dim // 2", "dim"]),
        (lambda n: torch.full((n, 2), 7), ["dim", "2"]),
        (lambda n: torch.tril(torch.ones(n, n)), ["dim", "dim"]),
        (lambda n: torch.tril(torch.ones(n, n)).view(1, 1, n, n), ["1", "1", "dim", "dim"]),
        (lambda n: torch.randn(n, 4) * 0.02, ["dim", "4"]),
        (lambda n: nn.Parameter(torch.zeros(1, n)), ["1", "dim"]),
        (lambda n: nn.Parameter(torch.zeros(1, n)).data.add(1), ["1", "dim"]),
    ],
)
def test_lengths_are_known(make: Any, lengths: list[str]) -> None:
    found = sizes(make)
    assert found is not None and found[0] == lengths


@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.zeros(3, 4),
        lambda n: torch.zeros(n, 2).sum(dim=0),
        lambda n: torch.zeros(int(n)),
        lambda n: torch.zeros(3, 3) * n,
    ],
)
def test_lengths_are_not_known(make: Any) -> None:
    assert sizes(make) is None


def test_of_another_tensor_nothing_is_known() -> None:
    with Sizes() as seen:
        made = torch.zeros(with_origin(6, DIM))
    assert seen.of(made) == (6,)
    assert seen.of(torch.zeros(6)) is None
    assert seen.of(torch.zeros(6).to_sparse()) is None
