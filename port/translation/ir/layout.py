"""Layouts: the order in which a JAX array has the axes of a torch tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Order = tuple[int, ...]


@dataclass(frozen=True)
class Folded:
    """A fold: a flattened axis whose elements are in another order than torch's.

    Attributes:
        axis: torch's axis.
        shape: the shape before the flatten in torch, (C, H, W).
        order: the order of these axes in the array, (1, 2, 0) for (H, W, C).
    """

    axis: int
    shape: tuple[int, ...]
    order: Order


@dataclass(frozen=True)
class Layout:
    """An array's layout relative to torch's tensor.

    Attributes:
        order: axis k of the array is torch's axis ``order[k]``: (0, 2, 3, 1) is channels last.
        folded: the flattened axis whose elements are reordered, if there is one.
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
        """Return the array's axis for torch's axis ``dim``, which may be negative."""
        return self.order.index(dim % self.rank) if self.rank else 0

    def __str__(self) -> str:
        return f"{self.order}" + (f" with {self.folded}" if self.folded else "")


Drawn: TypeAlias = "Layout | tuple[Drawn, ...] | None"
"""The layout of a random draw, or a tuple of those in one iteration of a loop; None for a draw of the original that
nothing reads, which the generated module does not make."""


def torchs(rank: int) -> Layout:
    """Return torch's layout."""
    return Layout(tuple(range(rank)))


def channels_last(rank: int, axis: int) -> Layout:
    """Return the layout with one of torch's axes last."""
    axis %= rank
    return Layout((*(other for other in range(rank) if other != axis), axis))


def moved(before: Layout, after: Layout) -> Order:
    """Return the axes of `jax.numpy.transpose` that bring an array from one order to another."""
    return tuple(before.order.index(dim) for dim in after.order)


def permuted(layout: Layout, dims: Order) -> Layout:
    """Return the layout of an unchanged array relative to the permuted tensor."""
    dims = tuple(dim % layout.rank for dim in dims)
    folded = layout.folded
    if folded is not None:
        folded = Folded(dims.index(folded.axis), folded.shape, folded.order)
    return Layout(tuple(dims.index(dim) for dim in layout.order), folded)


def without(layout: Layout, dims: set[int]) -> Layout:
    """Return the layout after removing torch's axes ``dims``."""
    kept = [dim for dim in range(layout.rank) if dim not in dims]
    new = {dim: place for place, dim in enumerate(kept)}
    folded = layout.folded
    if folded is not None:
        folded = None if folded.axis in dims else Folded(new[folded.axis], folded.shape, folded.order)
    return Layout(tuple(new[dim] for dim in layout.order if dim in new), folded)


def with_new(layout: Layout, dim: int) -> tuple[Layout, int]:
    """Return the layout after torch inserts an axis ``dim``, and the position of the new axis in the array.

    The new axis follows the axis that precedes it in torch; in torch's order, that is its position in torch.
    """
    place = 0 if dim == 0 else layout.order.index(dim - 1) + 1
    order = [other + (other >= dim) for other in layout.order]
    order.insert(place, dim)
    folded = layout.folded
    if folded is not None:
        folded = Folded(folded.axis + (folded.axis >= dim), folded.shape, folded.order)
    return Layout(tuple(order), folded), place


def of_lower_rank(layout: Layout, rank: int) -> Layout | None:
    """Return the layout with which an array of lower rank broadcasts against this layout.

    None if the array would need axes of length 1 in between.
    """
    lacking = layout.rank - rank
    if any(dim < lacking for dim in layout.order[lacking:]):
        return None
    return Layout(tuple(dim - lacking for dim in layout.order[lacking:]))
