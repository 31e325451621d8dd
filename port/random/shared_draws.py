"""The draws of one step in order, as jax makes them: the n-th with the key ``fold_in(key, n)``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from port.errors import UsageError
from port.random.batch_part import BatchPart
from port.random.draws import bernoulli, bernoulli_rows, uniform
from port.random.normal_draws import normal
from port.random.threefry import fold_in

_TORCH = Path(torch.__file__).parent
_HERE = Path(__file__).parent
_CHECKPOINT = str(_TORCH / "utils" / "checkpoint.py")


class FoldedAxis(Protocol):
    """A flattened block of axes, `DrawLayout.folded`: ``axis``, its ``shape`` in torch, and jax's ``order`` of it."""

    @property
    def axis(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def order(self) -> tuple[int, ...]: ...


class DrawLayout(Protocol):
    """How jax's array is laid out relative to torch's tensor: its axis k is torch's axis ``order[k]``."""

    @property
    def order(self) -> tuple[int, ...]: ...
    @property
    def folded(self) -> FoldedAxis | None: ...


Draw = Callable[[Tensor, tuple[int, ...], Tensor | None], Tensor]
"""Maps the key, the whole batch's shape, and the wanted rows (None for all) to the draw."""


def _plain(
    layouts: Sequence[DrawLayout | tuple[Any, ...] | None] | None,
) -> Sequence[DrawLayout | None] | None:
    """Return the layouts, after checking that none is of a draw in a loop."""
    plain = [layout for layout in layouts or () if not isinstance(layout, tuple)]
    if len(plain) < len(layouts or ()):
        raise UsageError(
            "the translated module draws within a loop over time (jax.lax.scan), where its draws are not those of "
            "torch's steps: draw the mask once before the loop, or give the loop's dropout the rate 0"
        )
    return None if layouts is None else plain


class SharedDraws:
    """The draws within one `shared_dropout`.

    Args:
        key: the step's key, (2,) uint32.
        part: the rows of the whole batch that the inputs are; None: the whole batch.
        x64: whether the JAX side runs with x64; None: if the tensor is float64.
        layouts: of the draws outside of layers that have their own layout, in order; they repeat. None: torch's
            layout. A layout of None is for a draw that nothing reads, and that the JAX side does not make.
    """

    def __init__(
        self,
        key: Tensor,
        part: BatchPart | None,
        x64: bool | None,
        layouts: Sequence[DrawLayout | tuple[Any, ...] | None] | None,
    ) -> None:
        self.key, self.part, self.x64 = key, part, x64
        self.layouts = _plain(layouts)
        self.count = 0
        self.laid_out = 0
        self.within_layers = 0
        """How many nested layers that draw in torch's layout, whatever the layouts say, are running."""

    def mask(self, shape: Sequence[int], keep: float, like: Tensor) -> Tensor:
        """Draw the next mask: True where an element is kept. Of that shape, on the device of ``like``."""
        x64 = like.dtype == torch.float64 if self.x64 is None else self.x64

        def draw(key: Tensor, whole: tuple[int, ...], rows: Tensor | None) -> Tensor:
            if rows is None:
                return bernoulli(key, keep, whole, x64=x64)
            return bernoulli_rows(key, keep, whole, rows, x64=x64)

        return self._drawn(shape, draw, like.device)

    def chances(self, probabilities: Tensor) -> Tensor:
        """Draw the next mask, where each element has its own probability."""
        return self.numbers(probabilities.shape, probabilities.dtype, 0, 1, probabilities) < probabilities

    def numbers(self, shape: Sequence[int], dtype: torch.dtype, low: float, high: float, like: Tensor) -> Tensor:
        """Draw the next numbers, uniform in [low, high)."""

        def draw(key: Tensor, whole: tuple[int, ...], rows: Tensor | None) -> Tensor:
            drawn = uniform(key, whole, dtype, float(low), float(high))
            return drawn if rows is None else drawn[rows]

        return self._drawn(shape, draw, like.device)

    def normals(self, shape: Sequence[int], dtype: torch.dtype, like: Tensor) -> Tensor:
        """Draw the next numbers, with mean 0 and variance 1."""

        def draw(key: Tensor, whole: tuple[int, ...], rows: Tensor | None) -> Tensor:
            drawn = normal(key, whole, dtype)
            return drawn if rows is None else drawn[rows]

        return self._drawn(shape, draw, like.device)

    def check_complete(self) -> None:
        """Check that the number of draws is the number of layouts, or a multiple of it.

        Raises:
            UsageError: there were fewer draws.
        """
        if self.layouts and self.count and (not self.laid_out or self.laid_out % len(self.layouts)):
            raise UsageError(
                f"the translated module draws {len(self.layouts)} times in one call, the original drew {self.laid_out} "
                "times: the masks of the two sides belong to different draws. Put the whole model into training mode "
                "and run all of it, or translate it as it is now"
            )

    def _drawn(self, shape: Sequence[int], draw: Draw, device: torch.device) -> Tensor:
        refuse_checkpointing()
        if self._is_unread():
            self.laid_out += 1
            return draw(self.key.to(device), tuple(shape), None)
        key = fold_in(self.key, self.count).to(device)
        layout = self._layout(len(shape))
        self.count += 1
        order = tuple(range(len(shape))) if layout is None else layout.order
        own = tuple(shape[dim] for dim in order)
        if self.part is None:
            drawn = draw(key, own, None)
        else:
            if order[:1] not in ((), (0,)):
                raise UsageError(f"rows need the samples first on both sides, but this draw has the axes {order}")
            drawn = draw(key, self.part.whole(own), self.part.rows.to(device))
        drawn = drawn.permute([order.index(dim) for dim in range(len(order))])
        return drawn if layout is None or layout.folded is None else _unfolded(drawn, layout.folded)

    def _is_unread(self) -> bool:
        """Whether nothing reads the next draw."""
        return bool(self.layouts) and not self.within_layers and self._next_layout() is None

    def _next_layout(self) -> DrawLayout | None:
        assert self.layouts
        return self.layouts[self.laid_out % len(self.layouts)]

    def _layout(self, rank: int) -> DrawLayout | None:
        if not self.layouts or self.within_layers:
            return None
        layout = self._next_layout()
        self.laid_out += 1
        return layout if layout is not None and len(layout.order) == rank else None


def _unfolded(array: Tensor, folded: FoldedAxis) -> Tensor:
    """Reorder a flattened block from jax's order to torch's."""
    axis, shape = folded.axis, array.shape
    if shape[axis] != math.prod(folded.shape):
        return array  # one number for the whole block
    before, block = shape[:axis], [folded.shape[part] for part in folded.order]
    back = [len(before) + folded.order.index(part) for part in range(len(block))]
    apart = array.reshape(*before, *block, *shape[axis + 1 :])
    axes = [*range(len(before)), *back, *range(len(before) + len(block), apart.ndim)]
    return apart.permute(axes).reshape(shape)


def refuse_checkpointing() -> None:
    """Raise UsageError under torch.utils.checkpoint: its second forward would draw other masks."""
    frame = sys._getframe(1)
    while frame is not None:  # type: ignore[redundant-expr]  # the outermost frame has no parent
        if frame.f_code.co_filename == _CHECKPOINT:
            raise UsageError(
                f"{location()}: dropout under activation checkpointing: its second forward would draw other masks. "
                "Switch the checkpointing off while the two sides are compared"
            )
        frame = frame.f_back  # type: ignore[assignment]


def location() -> str:
    """``file:line`` of the running line in the user's own code: neither torch's nor this package's."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_file() and _TORCH not in path.parents and path.parent != _HERE and path.name != "contextlib.py":
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "the model"
