"""Any move, and arrays that it takes: of any dtype and any bits, with no axis or no element too."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

from port.moves import (
    Addends,
    Arrays,
    Branch,
    Copy,
    EachBranch,
    Flip,
    Fold,
    Join,
    Move,
    Order,
    Pad,
    Permute,
    Reshape,
    Shape,
    Shapes,
    Split,
    Stack,
    Sum,
    Tie,
    Unstack,
)

DTYPES = (np.bool_, np.int8, np.int64, np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16)
SIZES = st.integers(0, 3)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)


@st.composite
def moves_of(draw: st.DrawFn, shapes: Shapes, depth: int = 1) -> Move:
    """A move that takes arrays of these shapes; none that is inexact."""
    kinds = [_order, *([_each] if depth else [])]
    kinds += [_permute] if len({len(shape) for shape in shapes}) == 1 else []
    kinds += [_flip] if all(shapes) else []
    kinds += [_reshape, _stack] if len(set(shapes)) == 1 else []
    kinds += [_fold] if len(set(shapes)) == 1 and shapes[0] else []
    kinds += [_pad] if len({shape[:1] for shape in shapes}) == 1 and shapes[0] else []
    kinds += [_copy] if len(shapes) == 1 else []
    kinds += [_split, _unstack] if len(shapes) == 1 and shapes[0] else []
    kinds += [_join] if len(set(shapes)) == 1 and shapes[0] else []
    return draw(draw(st.sampled_from(kinds))(shapes, depth))


@st.composite
def chains_of(draw: st.DrawFn, shapes: Shapes, depth: int = 0) -> tuple[Move, ...]:
    """Moves one after the other, the first of which takes arrays of these shapes."""
    moves: list[Move] = []
    for _ in range(draw(st.integers(0, 3))):
        move = draw(moves_of(shapes, depth))
        moves.append(move)
        shapes = move.shapes(shapes)
    return tuple(moves)


def _permute(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    return st.permutations(range(len(shapes[0]))).map(lambda axes: Permute(tuple(axes)))


def _reshape(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    (shape,) = set(shapes)
    others = [shape[::-1], (prod(shape),), (1, *shape), (*shape[:1], prod(shape[1:])), (*shape, 1)]
    return st.sampled_from([other for other in others if prod(other) == prod(shape)]).map(lambda o: Reshape(shape, o))


@st.composite
def _fold(draw: st.DrawFn, shapes: Shapes, depth: int) -> Move:
    axis = draw(st.integers(0, len(shapes[0]) - 1))
    size = shapes[0][axis]
    factor = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])) if size else 2
    parts = (factor, size // factor, 1)
    return Fold(axis, parts, tuple(draw(st.permutations(range(3)))))


def _flip(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    fewest = min(len(shape) for shape in shapes)
    return st.sets(st.integers(0, fewest - 1)).map(lambda axes: Flip(tuple(sorted(axes))))


@st.composite
def _split(draw: st.DrawFn, shapes: Shapes, depth: int) -> Move:
    axis = draw(st.integers(0, len(shapes[0]) - 1))
    size = shapes[0][axis]
    cuts = [0, *sorted(draw(st.lists(st.integers(0, size), max_size=2))), size]
    return Split(axis, tuple(int(part) for part in np.diff(cuts)))


def _join(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    axes = st.integers(0, len(shapes[0]) - 1)
    return axes.map(lambda axis: Join(axis, tuple(shape[axis] for shape in shapes)))


def _stack(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    return st.integers(0, len(shapes[0])).map(lambda axis: Stack(axis, len(shapes)))


def _unstack(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    axes = [axis for axis, size in enumerate(shapes[0]) if size]
    return st.sampled_from(axes).map(lambda axis: Unstack(axis, shapes[0][axis])) if axes else st.just(Order((0,)))


def _pad(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    # Values that any dtype has: a chain may carry bool, and the padding of a padding is of one value.
    return st.integers(0, 3).map(lambda more: Pad(0, shapes[0][0], shapes[0][0] + more))


def _copy(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    return st.integers(1, 3).map(Copy)


def _order(shapes: Shapes, depth: int) -> st.SearchStrategy[Move]:
    return st.permutations(range(len(shapes))).map(lambda places: Order(tuple(places)))


@st.composite
def _each(draw: st.DrawFn, shapes: Shapes, depth: int) -> Move:
    branches = []
    while shapes:
        takes = draw(st.integers(1, len(shapes)))
        part, shapes = shapes[:takes], shapes[takes:]
        moves = draw(chains_of(part, depth - 1))
        given = part
        for move in moves:
            given = move.shapes(given)
        branches.append(Branch(takes, moves, len(given)))
    return EachBranch(tuple(branches))


@st.composite
def _any_shapes(draw: st.DrawFn) -> Shapes:
    if draw(st.booleans()):
        return (draw(SHAPES),) * draw(st.integers(1, 3))
    return tuple(draw(st.lists(SHAPES, min_size=1, max_size=3)))


@st.composite
def _any_move(draw: st.DrawFn) -> tuple[Move, Shapes]:
    if draw(st.integers(0, 9)) == 0:
        count, shape = draw(st.integers(1, 3)), draw(SHAPES)
        return draw(st.sampled_from([(Sum(count), (shape,) * count), (Addends(count), (shape,))]))
    shapes = draw(_any_shapes())
    return draw(moves_of(shapes)), shapes


@st.composite
def _exact_move(draw: st.DrawFn) -> tuple[Move, Arrays]:
    if draw(st.integers(0, 9)) == 0:
        count, array = draw(st.integers(1, 3)), draw(_array(draw(SHAPES), draw(st.sampled_from(DTYPES))))
        if array.ndim and draw(st.booleans()):
            axis = draw(st.integers(0, array.ndim - 1))
            value = 0.0 if array.dtype.kind in "biu" else draw(st.sampled_from([0.0, -0.5, -np.inf]))
            pad = Pad(axis, array.shape[axis], array.shape[axis] + draw(st.integers(0, 2)), value)
            return pad.inverse(), pad((array,))
        return Tie(count), (array,) * count
    shapes = draw(_any_shapes())
    dtype = draw(st.sampled_from(DTYPES))
    return draw(moves_of(shapes)), tuple(draw(_array(shape, dtype)) for shape in shapes)


@st.composite
def _array(draw: st.DrawFn, shape: Shape, dtype: type) -> np.ndarray:
    size = prod(shape) * np.dtype(dtype).itemsize
    bits = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, 2 if dtype is np.bool_ else 256, size)
    return bits.astype(np.uint8).view(dtype).reshape(shape)


@pytest.fixture(scope="session")
def exact_moves() -> st.SearchStrategy[tuple[Move, Arrays]]:
    """A move that loses nothing, and arrays of one dtype that it takes."""
    return _exact_move()


@pytest.fixture(scope="session")
def any_moves() -> st.SearchStrategy[tuple[Move, Shapes]]:
    """A move, and shapes that it takes."""
    return _any_move()


@pytest.fixture(scope="session")
def chains() -> st.SearchStrategy[tuple[tuple[Move, ...], Arrays]]:
    """Moves one after the other, and arrays of one dtype that the first takes."""
    return _chain()


@st.composite
def _chain(draw: st.DrawFn) -> tuple[tuple[Move, ...], Arrays]:
    shapes = draw(_any_shapes())
    dtype = draw(st.sampled_from(DTYPES))
    return draw(chains_of(shapes, 1)), tuple(draw(_array(shape, dtype)) for shape in shapes)
