"""How an operator's expression treats axes, for arrays with another order of axes than torch's.

Keeping images channels-last requires it of every operator in between. "Permuted" means: all arrays have their axes in
the same other order, and axis numbers among the arguments are changed to match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Each:
    """Element by element; all arrays are broadcast, and the result has the broadcast shape.

    Arrays with fewer axes get leading axes of length 1, and are permuted like the others; 0-d arrays are unchanged.
    """


@dataclass(frozen=True, init=False)
class Along:
    """Along some axes, which are kept. The results have the axes of the first array; lengths along those may differ.

    Arrays with as many axes as the first are permuted like it. Others, such as a 1-d index, are unchanged.

    Attributes:
        variables: the arguments that are an axis or a tuple of axes. None, where torch accepts it, means no axis.
        without: arrays that lack the named axis of the first array, and are permuted like its other axes.
        cuts: whether the results are consecutive parts of the axis, with lengths from the arguments.
    """

    variables: tuple[str, ...]
    without: tuple[str, ...]
    cuts: bool

    def __init__(self, *variables: str, without: tuple[str, ...] = (), cuts: bool = False) -> None:
        object.__setattr__(self, "variables", variables)
        object.__setattr__(self, "without", without)
        object.__setattr__(self, "cuts", cuts)


@dataclass(frozen=True)
class Over:
    """Reduces axes: they are removed, or kept with length 1. Arrays are permuted as in `Each`.

    Attributes:
        variable: the argument that is the axis or tuple of axes; if its value is None all axes are reduced. None if the
            operator takes no axis and reduces all.
        keepdim: the argument that keeps the axes; None if they are always removed.
    """

    variable: str | None
    keepdim: str | None = None


@dataclass(frozen=True)
class Spatial:
    """On images: ``input`` and the results are (N, C, *spatial); no other array is an image.

    Attributes:
        axes: number of spatial axes of ``input``; there may be none or several batch axes. None: all axes after C are
            spatial, with one batch axis.
        last: the expression for channels-last ``input``, (N, *spatial, C), with channels-last results. Other arrays are
            in torch's layout.
        results: number of spatial axes of the results, if it differs from ``input``'s.
        several: whether ``last`` returns a tuple of channels-last images.
    """

    axes: int | None
    last: str
    results: int | None = None
    several: bool = False

    @property
    def first(self) -> str:
        """The expression for arrays in torch's layout."""
        before = 1 if self.axes is None else -1 - self.axes
        after = before if self.results is None else -1 - self.results
        moved = re.sub(r"(?<![\w.])input\b(?!\.(ndim|dtype)\b|=)", f"jnp.moveaxis(input, {before}, -1)", self.last)
        if self.several:
            return f"tuple(jnp.moveaxis(image, -1, {after}) for image in {moved})"
        return f"jnp.moveaxis({moved}, -1, {after})"


@dataclass(frozen=True)
class Permuted:
    """Permutes the axes of the array."""


@dataclass(frozen=True)
class Inserted:
    """Inserts an axis into the results; all arrays are permuted alike.

    Attributes:
        variable: the argument with the position of the new axis.
    """

    variable: str


@dataclass(frozen=True)
class Stretched:
    """Broadcasts axes of length 1, and adds leading axes.

    Attributes:
        variable: the argument with the shape of the result.
    """

    variable: str


@dataclass(frozen=True)
class Reshaped:
    """Reshapes: the same elements in the same order.

    Attributes:
        variable: the argument with the shape of the result.
    """

    variable: str


@dataclass(frozen=True)
class Widths:
    """Pads or crops the ends of axes. The result has the axes of ``input``.

    Attributes:
        variable: the argument with the widths: two for the last axis, two for the one before it, and so on.
    """

    variable: str


@dataclass(frozen=True)
class Product:
    """Multiplies matrices, over the last axes.

    Attributes:
        matrices: arrays with two axes that may be stored transposed: each is then written with ``.T``, and one with
            ``.T`` in the expression without.
        rows: the array whose leading axes may have any order, which the result takes over; None without one.
    """

    matrices: tuple[str, ...]
    rows: str | None = None


Axes = Each | Along | Over | Spatial | Permuted | Inserted | Stretched | Reshaped | Widths | Product


@dataclass(frozen=True)
class Last:
    """Of a layer: works along the last axes; leading axes may have any order, which the results keep.

    Attributes:
        axes: number of last axes.
        added: number of axes that the results append: an embedding has ``axes=0, added=1``.
    """

    axes: int = 1
    added: int = 0


@dataclass(frozen=True)
class First:
    """Of a layer: works along the first axis; the others may have any order, which the results keep."""
