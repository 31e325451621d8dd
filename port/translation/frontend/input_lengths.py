"""The input lengths that a translation accepts: free and fixed ones, and the conditions on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from math import prod
from typing import Any

from port.translation.frontend.resized_inputs import Sizes, tensors_of
from port.translation.ir.graph import Size
from port.translation.ir.symbolic_lengths import evaluated, words_in

Lengths = dict[str, int]
"""Name of a free length → its value."""


@dataclass(frozen=True)
class InputLengths:
    """The lengths of the input tensors.

    Attributes:
        shapes: one shape a tensor, in torch's order of axes; a size is a number, a name, or a formula of names.
        conditions: conditions on the names, as Python: ``"t <= 64"``.
        tried: the lengths at which both sides were compared, besides the example's.
        unguarded: names of lengths that torch.export fixed, so that it states no conditions on them.
    """

    shapes: tuple[tuple[Size, ...], ...]
    conditions: tuple[str, ...] = ()
    tried: tuple[Lengths, ...] = ()
    unguarded: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the free lengths."""
        found = dict.fromkeys(size for shape in self.shapes for size in shape if _is_name(size))
        return tuple(str(name) for name in found)

    def with_names(self, axes: Mapping[tuple[int, int], str]) -> InputLengths:
        """Free the length of some fixed axes, (tensor, axis) → preferred name; each gets a name of its own."""
        taken = {*self.names, *(word for shape in self.shapes for size in shape for word in words_in(str(size)))}
        shapes = [list(shape) for shape in self.shapes]
        for (number, axis), wanted in axes.items():
            if number < len(shapes) and isinstance(shapes[number][axis], int):
                names = chain([wanted], (f"{wanted}{k}" for k in count(2)))
                name = next(each for each in names if each not in taken)
                taken.add(name)
                shapes[number][axis] = name
        return replace(self, shapes=tuple(map(tuple, shapes)))

    def of(self, args: Any, kwargs: dict[str, Any]) -> Lengths:
        """Return the values of the free lengths in a call's arguments."""
        found: Lengths = {}
        for shape, tensor in zip(self.shapes, tensors_of(args, kwargs), strict=False):
            found.update((str(name), size) for name, size in zip(shape, tensor.shape, strict=False) if _is_name(name))
        return found

    def sizes(self, lengths: Lengths) -> Sizes:
        """Return the sizes of all axes whose length depends on these names."""
        return {
            (number, axis): int(evaluated(size, lengths))
            for number, shape in enumerate(self.shapes)
            for axis, size in enumerate(shape)
            if isinstance(size, str) and set(words_in(size)) & lengths.keys()
        }

    def elements(self, lengths: Lengths) -> int:
        """Count the elements of all inputs."""
        return sum(prod(int(evaluated(size, lengths)) for size in shape) for shape in self.shapes)

    def broken(self, lengths: Lengths) -> frozenset[str]:
        """Return the conditions that these lengths violate."""
        return frozenset(condition for condition in self.conditions if not holds(condition, lengths))


def holds(condition: str, lengths: Lengths) -> bool:
    """Whether lengths meet a condition; a division by zero or an unknown name counts as not met."""
    try:
        return bool(evaluated(condition, lengths))
    except (ArithmeticError, NameError):
        return False


def to_data(lengths: InputLengths) -> dict[str, Any]:
    """Convert to plain data, for a JSON file."""
    return {
        "shapes": [list(shape) for shape in lengths.shapes],
        "conditions": list(lengths.conditions),
        "tried": list(lengths.tried),
    }


def from_data(data: dict[str, Any]) -> InputLengths:
    """Read back what `to_data` wrote."""
    return InputLengths(_shapes(data["shapes"]), tuple(data["conditions"]), tuple(map(dict, data["tried"])))


def _shapes(data: Sequence[Sequence[Size]]) -> tuple[tuple[Size, ...], ...]:
    return tuple(tuple(size if isinstance(size, int) else str(size) for size in shape) for shape in data)


def _is_name(size: Size) -> bool:
    return isinstance(size, str) and size.isidentifier()
