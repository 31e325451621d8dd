"""Routes: the moves by which one tensor can become another, by their shapes, if no pair covers both layers."""

from __future__ import annotations

from itertools import permutations
from math import prod

from port.moves import Move, Permute, Reshape, Shape

Moves = tuple[Move, ...]


def routes(family: str, shape: Shape, other_family: str, other: Shape, *, role: str) -> list[Moves]:
    """List every way for a torch tensor to become a Flax one, the usual one first; empty if the shapes do not fit.

    Args:
        family: the family of torch's unit.
        shape: the shape of torch's tensor.
        other_family: the family of Flax's unit.
        other: the shape of Flax's tensor.
        role: the tensors' role in their layers.
    """
    if prod(shape) != prod(other):
        return []
    if role != "weight" or len(shape) < 2:
        return _in_order(shape, other, cut=other_family != "own" and role == "bias")
    if family == "linear":
        found = _transposed(shape, other)
        return found if other_family in ("linear", "conv") else _unlike(found + _in_order(shape, other))
    if family == "conv" and other_family == "linear":
        return _flattened_window(shape, other)
    if other_family == "linear" and family == "own" and len(shape) == 2:
        # A user's own layer may store its weight as torch's Linear or as Flax's Dense.
        return _unlike(_in_order(shape, other, cut=True) + _transposed(shape, other))
    if family == "conv":
        window = tuple(range(2, len(shape)))
        usual = (*window, 1, 0)
        first: list[Moves] = [(Permute(usual),)] if tuple(shape[axis] for axis in usual) == other else []
        return _unlike(first + _any_order(shape, other))
    return _unlike(_in_order(shape, other) + _any_order(shape, other))


def linear(shape: Shape, other: Shape) -> list[Moves]:
    """From a Linear's (out, in) to a kernel with the inputs' axes followed by the outputs', however split."""
    return _transposed(shape, other)


def _transposed(shape: Shape, other: Shape) -> list[Moves]:
    out, into = shape
    for cut in range(1, len(other)):
        if prod(other[:cut]) == into and prod(other[cut:]) == out:
            turned: Moves = (Permute((1, 0)),)
            return [turned if other == (into, out) else (*turned, Reshape((into, out), other))]
    return []


def _in_order(shape: Shape, other: Shape, *, cut: bool = False) -> list[Moves]:
    """The same elements in the same order: unchanged, with axes of length one added or removed, or split into axes."""
    if shape == other:
        return [()]
    same = tuple(size for size in shape if size != 1) == tuple(size for size in other if size != 1)
    return [(Reshape(shape, other),)] if same or (cut and prod(shape) == prod(other)) else []


def _any_order(shape: Shape, other: Shape) -> list[Moves]:
    """The axes in every other order that results in the shape."""
    bare = tuple(size for size in shape if size != 1)
    wanted = tuple(size for size in other if size != 1)
    found: list[Moves] = []
    if not 2 <= len(bare) <= 4 or sorted(bare) != sorted(wanted):
        return found
    for axes in permutations(range(len(bare))):
        if axes != tuple(range(len(bare))) and tuple(bare[axis] for axis in axes) == wanted:
            before: Moves = (Reshape(shape, bare),) if shape != bare else ()
            after: Moves = (Reshape(wanted, other),) if wanted != other else ()
            found.append((*before, Permute(axes), *after))
    return found


def _flattened_window(shape: Shape, other: Shape) -> list[Moves]:
    """A convolution's (out, in, *window) to a kernel over patches, flattened with their channels last or first."""
    axes = len(shape)
    window = tuple(range(2, axes))
    found: list[Moves] = []
    for order in ((*window, 1, 0), (1, *window, 0)):
        turned = tuple(shape[axis] for axis in order)
        for cut in range(1, len(other)):
            if prod(other[:cut]) == prod(turned[:-1]) and prod(other[cut:]) == shape[0]:
                moves: Moves = (Permute(order),) if turned == other else (Permute(order), Reshape(turned, other))
                found.append(moves)
                break
    return found[:1] if prod(shape[2:]) == 1 or shape[1] == 1 else found


def _unlike(found: list[Moves]) -> list[Moves]:
    return list(dict.fromkeys(found))
