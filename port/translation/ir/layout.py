"""In what order an array of JAX's has the axes of a tensor of torch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Order = tuple[int, ...]


@dataclass(frozen=True)
class Folded:
    """An axis that is a flattened block whose elements are in another order than torch's.

    Attributes:
        axis: torch's axis.
        shape: of the block in torch, (C, H, W).
        order: in which the array has the block's axes, (1, 2, 0) for (H, W, C).
    """

    axis: int
    shape: tuple[int, ...]
    order: Order


@dataclass(frozen=True)
class Layout:
    """How an array lies beside torch's tensor.

    Attributes:
        order: axis k of the array is torch's axis ``order[k]``: (0, 2, 3, 1) is channels last.
        folded: flattened axes whose elements are reordered; at most one.
    """

    order: Order
    folded: Folded | None = None

    @property
    def rank(self) -> int:
        return len(self.order)

    @property
    def is_torchs(self) -> bool:
        return self.order == tuple(range(self.rank)) and self.folded is None

    def axis(self, dim: int) -> int:
        """Where the array has torch's axis ``dim`` (which may be counted from the end)."""
        return self.order.index(dim % self.rank) if self.rank else 0

    def __str__(self) -> str:
        return f"{self.order}" + (f" with {self.folded}" if self.folded else "")


Drawn: TypeAlias = "Layout | tuple[Drawn, ...] | None"
"""The layout of what is drawn at random once, or those of what each round of a loop draws; None for what the original
draws and nothing reads, which the written module does not draw."""


def torchs(rank: int) -> Layout:
    """The layout of an array that lies as torch's tensor does."""
    return Layout(tuple(range(rank)))


def channels_last(rank: int, axis: int) -> Layout:
    """That of an array with one of torch's axes last."""
    axis %= rank
    return Layout((*(other for other in range(rank) if other != axis), axis))


def moved(before: Layout, after: Layout) -> Order:
    """The axes of `jax.numpy.transpose` that bring an array from one order to another."""
    return tuple(before.order.index(dim) for dim in after.order)


def permuted(layout: Layout, dims: Order) -> Layout:
    """The layout that the same array has beside the permuted tensor."""
    dims = tuple(dim % layout.rank for dim in dims)
    folded = layout.folded
    if folded is not None:
        folded = Folded(dims.index(folded.axis), folded.shape, folded.order)
    return Layout(tuple(dims.index(dim) for dim in layout.order), folded)


def without(layout: Layout, dims: set[int]) -> Layout:
    """The layout of an array that has lost torch's axes ``dims``."""
    kept = [dim for dim in range(layout.rank) if dim not in dims]
    new = {dim: place for place, dim in enumerate(kept)}
    folded = layout.folded
    if folded is not None:
        folded = None if folded.axis in dims else Folded(new[folded.axis], folded.shape, folded.order)
    return Layout(tuple(new[dim] for dim in layout.order if dim in new), folded)


def with_new(layout: Layout, dim: int) -> tuple[Layout, int]:
    """The layout after a new axis ``dim`` in torch, and where the array gets it.

    It goes where torch has it, if the array has torch's order; else behind the axis that torch has before it.
    """
    place = 0 if dim == 0 else layout.order.index(dim - 1) + 1
    order = [other + (other >= dim) for other in layout.order]
    order.insert(place, dim)
    folded = layout.folded
    if folded is not None:
        folded = Folded(folded.axis + (folded.axis >= dim), folded.shape, folded.order)
    return Layout(tuple(order), folded), place


def of_lower_rank(layout: Layout, rank: int) -> Layout | None:
    """The layout that an array of lower rank needs to broadcast against one of this layout.

    None where that needs axes in between, which the array has not.
    """
    lacking = layout.rank - rank
    if any(dim < lacking for dim in layout.order[lacking:]):
        return None
    return Layout(tuple(dim - lacking for dim in layout.order[lacking:]))
