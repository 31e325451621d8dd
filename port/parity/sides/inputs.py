"""The inputs, and their layout: torch takes channels first, Flax channels last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from port.parity.sides.calls import RecordedCall, as_array, is_floating
from port.parity.sides.structure import is_array, leaves, rebuilt


@dataclass(frozen=True)
class Inputs:
    """The arguments of a model's call; arrays are numpy's."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tree(self) -> tuple[Any, ...]:
        """All arguments in one structure, so that every array has a name."""
        return (*self.args, self.kwargs)

    @property
    def described(self) -> str:
        """Dtypes and shapes, for a message."""
        return ", ".join(f"{array.dtype} {tuple(array.shape)}" for array in leaves(self.tree).values()) or "no array"


def inputs_from(arguments: Any, dtype: Any) -> Inputs:
    """Convert the user's arguments: one array, a tuple of positional arguments, or a dict of keyword arguments.

    Args:
        arguments: torch, jax or numpy arrays, and any other arguments of the model.
        dtype: the dtype of all floating arrays.
    """

    def converted(name: str, leaf: Any) -> np.ndarray:
        array = as_array(leaf)
        return array.astype(dtype) if is_floating(array) else array

    if isinstance(arguments, Inputs):
        return arguments
    if isinstance(arguments, Mapping):
        return Inputs((), {str(name): rebuilt(value, converted) for name, value in arguments.items()})
    args = arguments if type(arguments) is tuple else (arguments,)
    return Inputs(tuple(rebuilt(value, converted) for value in args), {})


@dataclass(frozen=True)
class InputLayout:
    """Where the first spatial layer has its channels, and which inputs Flax takes channels last.

    Attributes:
        rank: the number of axes of its input.
        axis: torch's channel axis.
        channels: the number of channels; None if the user asked to move the channels whatever their number.
        moved: names of the inputs that Flax takes channels last.
    """

    rank: int
    axis: int
    channels: int | None
    moved: tuple[str, ...] = ()

    def to_last(self, array: Any) -> Any:
        """Convert torch's layout to Flax's."""
        return np.moveaxis(array, self.axis, -1)

    def to_first(self, array: Any) -> Any:
        """Convert Flax's layout to torch's."""
        return np.moveaxis(array, -1, self.axis)

    def in_torchs(self, array: np.ndarray, like: tuple[int, ...]) -> np.ndarray:
        """Return a Flax output in torch's layout.

        If the inputs were moved, an output of the same rank is channels last; if only the unchanged shape fits, it is
        returned unchanged.
        """
        if self.moved and array.ndim == self.rank:
            first = self.to_first(array)
            if first.shape == like or array.shape != like:
                return first
        return array


AS_IT_IS = InputLayout(0, 0, None)
"""Both sides take the same layout."""


def layout_of(
    inputs: Inputs, first: RecordedCall | None, axis: int | None, *, channels_last: bool | None
) -> InputLayout:
    """Find the layout of a model's inputs from its first spatial layer.

    Args:
        inputs: torch's inputs.
        first: the first call of a spatial layer; None if there is none.
        axis: torch's channel axis in that call's input.
        channels_last: the user's choice: True moves every input of the layer's rank, False none; None moves those that
            have as many channels on that axis as the layer's input.
    """
    if first is None or axis is None:
        rank = max((array.ndim for array in leaves(inputs.tree).values()), default=0)
        layout = InputLayout(rank, 1, None)
        if not channels_last or rank < 3:
            return AS_IT_IS
    else:
        seen = next(iter(first.inputs.values()))
        layout = InputLayout(seen.ndim, axis, None if channels_last else seen.shape[axis])
    if channels_last is False:
        return layout
    moved = tuple(name for name, array in leaves(inputs.tree).items() if _is_spatial(array, layout))
    return InputLayout(layout.rank, layout.axis, layout.channels, moved)


def for_flax(inputs: Inputs, layout: InputLayout) -> Inputs:
    """Return the inputs in Flax's layout."""

    def moved(name: str, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(layout.to_last(array)) if name in layout.moved else array

    *args, kwargs = rebuilt(inputs.tree, moved)
    return Inputs(tuple(args), kwargs)


def _is_spatial(array: Any, layout: InputLayout) -> bool:
    # A mask has no channel axis.
    if not is_array(array) or array.ndim != layout.rank or array.dtype == bool:
        return False
    return layout.channels is None or array.shape[layout.axis] == layout.channels
