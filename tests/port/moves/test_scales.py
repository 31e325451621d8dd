"""A quantised weight and its scales: the product, rounded once; in parts; and back to the last bit, or not at all."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Branch, EachBranch, Narrow, Permute, Split, Stack, Widen, dtypes_of, restriction_of, scales
from port.moves.boxes import cut
from port.moves.eight_bits import blocks_of
from port.moves.spec import move_from, spec_of

RANDOM = np.random.default_rng(0)
SHAPE = (300, 200)
LAYOUTS = {"one": (), "one in a list": (1,), "rows": (300, 1), "rows in a list": (300,), "blocks": (3, 2)}
BOXES = [(range(130, 290), range(100, 140)), (range(300), range(128, 200)), (range(5, 5), range(9))]
STORED = ("float8_e4m3fn", "float8_e5m2", "int8")
LARGEST = {"float8_e4m3fn": 448, "float8_e5m2": 57344, "int8": 127}


def by_hand(shape, scales, blocks):
    """Each element's scale, one by one."""
    grid = scales.reshape(
        (1,) * len(shape) if scales.size == 1 else (*scales.shape, *(1,) * (len(shape) - scales.ndim))
    )
    full = np.empty(shape)
    for place in np.ndindex(shape):
        full[place] = grid[tuple(at // block if block else 0 for at, block in zip(place, blocks, strict=True))]
    return full


def quantised(stored, layout, shape=SHAPE, dtype="float32", scaled="float32"):
    """A weight as quantisers write it: each block's largest value is mapped to the largest there is."""
    weight = RANDOM.normal(size=shape).astype(np.float32)
    blocks = blocks_of(shape, layout)
    move = Widen(dtype, stored, blocks, layout, scaled)
    grid = np.empty(move._grid(), np.dtype(scaled))
    result = np.empty(shape, np.dtype(stored))
    for block in np.ndindex(*grid.shape):
        each = zip(block, blocks, strict=True)
        part = tuple(slice(at * size, (at + 1) * size) if size else slice(None) for at, size in each)
        grid[block] = np.abs(weight[part]).max() / np.float32(LARGEST[stored])
        divided = weight[part] / grid[block].astype(np.float32)
        result[part] = (np.rint(divided) if stored == "int8" else divided).astype(result.dtype)
    return move, result, grid.reshape(layout)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_each_element_by_its_block_s_scale(stored, layout, monkeypatch):
    shape = (5, 7) if len(layout) == 1 and layout != (1,) else SHAPE[:2]
    if layout in ((300, 1), (300,)):
        shape, layout = (5, 7), (5, *layout[1:])
    move, weight, told = quantised(stored, layout, shape)
    monkeypatch.setattr(scales, "AT_ONCE", 4 * shape[1] * 3)  # three rows in one go
    (widened,) = move((weight, told))
    assert widened.dtype == np.float32
    exact = weight.astype(np.float64) * by_hand(shape, told, move.blocks)
    assert widened.tobytes() == exact.astype(np.float32).tobytes()
    if told.size > 1:
        (wrong,) = move((weight, np.roll(told, 1)))
        assert wrong.tobytes() != widened.tobytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_it_is_rounded_once_to_the_dtype_asked(dtype):
    move, weight, told = quantised("float8_e4m3fn", (3, 2), dtype=dtype)
    (widened,) = move((weight, told))
    exact = weight.astype(np.float64) * by_hand(SHAPE, told, move.blocks)
    once = exact if dtype == "float64" else exact.astype(np.float32)
    assert widened.tobytes() == once.astype(np.dtype(dtype)).tobytes()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "box", [(range(130, 290), range(100, 140)), (range(300), range(128, 200)), (range(5, 5), range(9))]
)
def test_a_part_is_of_its_blocks_scales(layout, box):
    move, weight, told = quantised("int8", layout)
    part = restriction_of((move,), (weight.shape, told.shape), (box,))
    assert part.needs[0] == box
    (made,) = part.make(tuple(cut(a, need).copy() for a, need in zip((weight, told), part.needs, strict=True)))
    (whole,) = move((weight, told))
    assert made.tobytes() == cut(whole, box).tobytes()
    if layout == (3, 2) and box[0]:
        assert part.needs[1] == ((range(1, 3), range(2)) if box[0].start == 130 else (range(3), range(1, 2)))


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("layout", [(), (20, 1), (20,), (1, 2)], ids=str)
def test_it_comes_back_to_the_last_bit(stored, layout):
    move, weight, told = quantised(stored, layout, (20, 200))
    back, scale = move.inverse()(move((weight, told)))
    assert (back.dtype, scale.dtype) == (weight.dtype, told.dtype)
    assert back.tobytes() == weight.tobytes()
    assert scale.tobytes() == told.tobytes()
    assert move.inverse().inverse() == move


@pytest.mark.parametrize(
    ("stored", "most"), [("int8", 101), ("int8", 128), ("float8_e4m3fn", 416), ("float8_e4m3fn", 352)]
)
def test_whatever_the_largest_value_was_mapped_to(stored, most):
    """As a quantiser does that clips, or divides by 127.5."""
    small = RANDOM.uniform(-most + 20, most - 20, (3, 50)).astype(np.dtype(stored))
    small[:, 7] = -most
    small[:, 8] = 3  # odd: no other scale says it
    told = RANDOM.uniform(1, 2, (3, 1)).astype(np.float32)
    move = Widen("float32", stored, (1, 0), (3, 1))
    back, scale = move.inverse()(move((small, told)))
    assert back.tobytes() == small.tobytes()
    assert scale.tobytes() == told.tobytes()


def test_powers_of_two_come_back_too():
    move, weight, told = quantised("float8_e4m3fn", (1, 2), (20, 200), scaled="float8_e8m0fnu")
    told = (2.0 ** np.array([[-9, -3]])).astype(told.dtype)
    weight = np.clip(RANDOM.normal(size=(20, 200)) * 100, -448, 448).astype(weight.dtype)
    weight[0, [0, 150]] = 448
    back, scale = move.inverse()(move((weight, told)))
    assert back.tobytes() == weight.tobytes()
    assert scale.tobytes() == told.tobytes()


def test_blocks_of_zeros_and_minus_zero():
    move, weight, told = quantised("float8_e4m3fn", (1, 2), (20, 200))
    weight[:, :128] = 0
    weight[3, 3] = -0.0
    told[0, 0] = 1
    back, scale = move.inverse()(move((weight, told)))
    assert back.tobytes() == weight.tobytes()
    assert scale.tobytes() == told.tobytes()


@pytest.mark.parametrize("stored", STORED)
def test_what_was_trained_does_not_come_back(stored):
    move, weight, told = quantised(stored, (1, 2), (20, 200))
    (widened,) = move((weight, told))
    widened[7, 150] = np.nextafter(widened[7, 150], np.float32(9))
    said = re.escape("no scale reproduces the block (0, 1) to the last bit: it was trained, or widened to a dtype")
    with pytest.raises(WeightsMismatch, match=said):
        move.inverse()((widened,))


def test_fewer_digits_than_the_scale_has_do_not_come_back():
    move, weight, told = quantised("float8_e4m3fn", (1, 2), (20, 200), dtype="bfloat16")
    with pytest.raises(WeightsMismatch, match="widened to a dtype with too few digits"):
        move.inverse()(move((weight, told)))


def test_a_factor_is_of_all_scales():
    """bitsandbytes keeps each row's largest value: its scale is 1/127 of it."""
    weight = RANDOM.integers(-127, 128, (6, 9)).astype(np.int8)
    weight[:, 0] = 127
    largest = RANDOM.uniform(1, 2, 6).astype(np.float32)
    move = Widen("float32", "int8", (1, 0), (6,), factor=1 / 127)
    (widened,) = move((weight, largest))
    wanted = weight.astype(np.float32) * largest[:, None] * np.float32(1 / 127)
    assert widened.tobytes() == wanted.tobytes()
    back, scale = move.inverse()((widened,))
    assert back.tobytes() == weight.tobytes()
    assert np.abs(scale - largest).max() < 1e-6


def test_what_it_cannot_take_is_refused_with_and_without_arrays():
    move, weight, told = quantised("float8_e4m3fn", (3, 2))
    for attempt in (lambda: move.shapes((SHAPE, (2, 3))), lambda: move((weight, told.T))):
        with pytest.raises(WeightsMismatch, match=r"needs scales for \(3, 2\) blocks, stored as \(3, 2\), got shape"):
            attempt()
    with pytest.raises(WeightsMismatch, match=r"needs scales for \(2, 2\) blocks"):
        move.shapes(((200, 200), (3, 2)))
    with pytest.raises(WeightsMismatch, match="needs scales for 2 axes blocks"):
        move.shapes(((200,), (3, 2)))
    with pytest.raises(WeightsMismatch, match="takes float8_e4m3fn and scales of float32, got int8 and float32"):
        move((weight.view(np.int8), told))
    with pytest.raises(WeightsMismatch, match="takes float32, got float64"):
        move.inverse()((np.zeros(SHAPE),))
    with pytest.raises(WeightsMismatch, match="widen: unknown int4 here"):
        replace(move, stored="int4")
    with pytest.raises(WeightsMismatch, match="widen: unknown float8_e4m3fn here; choose from float16"):
        replace(move, dtype="float8_e4m3fn")


def test_what_follows_is_of_the_dtype_that_it_gives():
    widen = Widen("bfloat16", "int8", (1, 0), (4,))
    moves = (EachBranch((Branch(2, (widen,), 1), Branch(1, (Permute((1, 0)),), 1))), Stack(0, 2), Split(0, (1, 1)))
    shapes, given = ((4, 3), (4,), (3, 4)), (np.dtype("int8"), np.dtype("float32"), np.dtype(ml_dtypes.bfloat16))
    assert dtypes_of(moves[:1], shapes, given) == (given[2], given[2])
    assert dtypes_of(moves, shapes, given) == (given[2], given[2])
    assert dtypes_of((widen, widen.inverse()), shapes[:2], given[:2]) == given[:2]


def test_a_narrow_part_is_cut_from_the_whole():
    move, weight, told = quantised("int8", (20, 1), (20, 30))
    (widened,) = move((weight, told))
    boxes = ((range(3, 5), range(30)), (range(4, 9), range(1)))
    part = restriction_of((move.inverse(),), ((20, 30),), boxes)
    one, other = part.make((cut(widened, part.needs[0]),))
    assert one.tobytes() == cut(weight, boxes[0]).tobytes()
    assert other.tobytes() == cut(told, boxes[1]).tobytes()


def test_as_data():
    move = Widen("bfloat16", "float8_e4m3fn", (128, 128), (3, 2))
    for each in (move, move.inverse(), replace(move, factor=0.5, scaled="bfloat16")):
        assert move_from(spec_of(each), None) == each
        assert move_from(spec_of(each), (SHAPE, (3, 2)) if isinstance(each, Widen) else (SHAPE,)) == each
    short = {"widen": {"from": "float8_e4m3fn", "to": "bfloat16"}}
    assert move_from(short, (SHAPE, (3, 2))) == move
    assert move_from({"widen": short["widen"] | {"blocks": [100, 100]}}, (SHAPE, (3, 2))).blocks == (100, 100)
    assert isinstance(move.inverse(), Narrow)
    for wrong, message in (
        ({"widen": "bfloat16"}, "it needs both dtypes, as in"),
        ({"widen": {"to": "bfloat16"}}, "'from' is missing"),
        ({"widen": short["widen"] | {"block": 3}}, "unknown key block"),
        ({"widen": {"from": 8, "to": "bfloat16"}}, "dtypes are names"),
        ({"narrow": short["widen"]}, "'scales' is missing"),
    ):
        with pytest.raises(WeightsMismatch, match=message):
            move_from(wrong, (SHAPE, (3, 2)))
    with pytest.raises(WeightsMismatch, match="not known here; write its sizes or count out"):
        move_from(short, None)
