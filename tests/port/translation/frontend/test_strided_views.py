"""Writes to diagonals: ``fill_diagonal_`` uses a strided view, ``diagonal()`` its own operator."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import port
from port.errors import NoPair


class Filled(nn.Module):
    """Masks each sample's similarity with itself, as a contrastive loss does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        likeness = x @ x.t()
        likeness.fill_diagonal_(float("-inf"))
        return likeness.softmax(-1)


class OfAnyShape(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, z = x * 2, x.t().contiguous() * 3
        y.fill_diagonal_(0.25)
        return y, z.fill_diagonal_(7)


class OfAPart(nn.Module):
    """A matrix that does not start where its memory does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[1:].fill_diagonal_(0.5)
        return y


class Others(nn.Module):
    """Diagonals of batched matrices, and off the main diagonal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ x.transpose(-1, -2)
        y.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        y.diagonal(1, -2, -1).copy_(x[..., :-1, 0])
        y.diagonal(-2, -2, -1).add_(1.5)
        return y.softmax(-1)


class Strided(nn.Module):
    """Not a diagonal: every second number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.as_strided((3,), (2,)).fill_(1.0)
        return y


@pytest.mark.parametrize(
    ("shape", "modules"),
    [
        ((5, 3), (OfAnyShape(),)),
        ((3, 5), (OfAnyShape(), Filled())),
        ((5, 3), (Filled(),)),
    ],
)
@pytest.mark.sweep
def test_a_diagonal_is_filled(shape: tuple[int, int], modules: tuple[nn.Module, ...]) -> None:
    for module in modules:
        made = port.translate(module, (torch.randn(*shape),))
        assert made.proof is not None and made.proof.agrees, made.proof
        assert "jnp.fill_diagonal(" in made.source and "inplace=False)" in made.source


@pytest.mark.sweep
def test_a_part_s_diagonal_is_refused_by_torch() -> None:
    with pytest.raises(NoPair, match="as_strided"):
        port.translate(OfAPart(), (torch.randn(4, 3),))


@pytest.mark.sweep
def test_the_diagonals_of_several_matrices() -> None:
    made = port.translate(Others(), (torch.randn(2, 5, 3),))
    assert made.proof is not None and made.proof.agrees, made.proof
    assert ".at[..., jnp.arange(value.shape[-1]), jnp.arange(value.shape[-1])].set(value)" in made.source


def test_another_view_is_refused() -> None:
    made = port.translate(Strided(), (torch.randn(4, 3),))
    assert any(one.what.startswith("aten.as_strided") for one in made.unwritten)
