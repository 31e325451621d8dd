"""How an operator's expression treats axes: what holds for arrays whose axes come in another order than torch's.

Who keeps images with the channels last needs to know it of each operator in between. "Permuted" is here: the axes of
all arrays concerned in one other order, and the numbers of axes among the arguments those of the same axes there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Each:
    """Element by element; all arrays are broadcast, and the result has the broadcast shape.

    Arrays with fewer axes than others have length 1 in front, and are permuted as the others are; one number stays.
    """


@dataclass(frozen=True, init=False)
class Along:
    """Along some axes, which stay. The results have the axes of the first array; lengths may differ along those named.

    Arrays of as many axes as the first are permuted as it is. Others stay as they are: an index, of one axis.

    Attributes:
        variables: what is an axis, or a tuple of axes. None, where torch takes it, is no axis.
        without: arrays that have the axes of the first but for the one named, and are permuted as these are.
        cuts: whether the results are parts of the axis, one behind the other, each as long as the arguments say.
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
    """Axes are reduced: they go, or stay with length 1. Arrays are permuted as in `Each`.

    Attributes:
        variable: what is the axis, or the tuple of them; where it is None all axes are reduced, and so where the
            operator takes no axis and ``variable`` itself is None.
        keepdim: what says whether they stay; None if they never do.
    """

    variable: str | None
    keepdim: str | None = None


@dataclass(frozen=True)
class Spatial:
    """On images: ``input`` is (N, C, *spatial), and so are the results; no other array is one.

    Attributes:
        axes: how many spatial axes ``input`` has; then N may be absent, or there may be several such axes. None: all
            behind C, and N is there.
        last: the expression for ``input`` with the channels last, (N, *spatial, C), whose results have them last too.
            Its other arrays are as torch has them.
        results: how many spatial axes the results have, where they are not as many as ``input``'s.
        several: whether ``last`` gives a tuple of images, each with the channels last.
    """

    axes: int | None
    last: str
    results: int | None = None
    several: bool = False

    @property
    def first(self) -> str:
        """The expression for arrays with the channels where torch has them."""
        before = 1 if self.axes is None else -1 - self.axes
        after = before if self.results is None else -1 - self.results
        moved = re.sub(r"(?<![\w.])input\b(?!\.(ndim|dtype)\b|=)", f"jnp.moveaxis(input, {before}, -1)", self.last)
        if self.several:
            return f"tuple(jnp.moveaxis(image, -1, {after}) for image in {moved})"
        return f"jnp.moveaxis({moved}, -1, {after})"


@dataclass(frozen=True)
class Permuted:
    """The same array with its axes in another order: that which the expression gives them."""


@dataclass(frozen=True)
class Inserted:
    """The results have one axis more than the arrays, which are permuted alike.

    Attributes:
        variable: what says where the results have it.
    """

    variable: str


@dataclass(frozen=True)
class Stretched:
    """Axes of length 1 are repeated, and new ones stand in front.

    Attributes:
        variable: what is the lengths of the result, in the order of its axes.
    """

    variable: str


@dataclass(frozen=True)
class Reshaped:
    """The same elements, in the same order, under another shape.

    Attributes:
        variable: what is the lengths of the result.
    """

    variable: str


@dataclass(frozen=True)
class Widths:
    """Something is done at the ends of axes. The result has the axes of ``input``.

    Attributes:
        variable: what is the widths: two of the last axis, two of the one before it, and so on.
    """

    variable: str


@dataclass(frozen=True)
class Product:
    """A product of matrices, of the last axes.

    Attributes:
        matrices: arrays that may lie transposed, if they have two axes: each is then written ``.T``, and what is
            ``.T`` in the expression as it lies.
        rows: the array whose axes but the last may come in any order, which is that of the result; None if none.
    """

    matrices: tuple[str, ...]
    rows: str | None = None


Axes = Each | Along | Over | Spatial | Permuted | Inserted | Stretched | Reshaped | Widths | Product


@dataclass(frozen=True)
class Last:
    """Along the last axes, of a layer; those before may come in any order, and the results have them too.

    Attributes:
        axes: how many.
        added: how many the results have behind them: an embedding has ``axes=0, added=1``.
    """

    axes: int = 1
    added: int = 0


@dataclass(frozen=True)
class First:
    """Along the first axis, of a layer; those behind may come in any order, and the results have them so."""
