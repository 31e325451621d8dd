"""Numbers of eight bits as they are, and the blocks that shapes tell."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Widen
from port.moves.eight_bits import QUANTISED, bits_of, blocks_of, mapped_to, near, values_of


@pytest.mark.parametrize("name", QUANTISED)
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_every_number_is_what_it_is(name, wide):
    every = np.arange(256, dtype=np.uint8).view(np.dtype(name)).reshape(16, 16)
    for given in (every, every.T, every[::2, 1::3]):
        assert bits_of(values_of(given, np.dtype(wide))).tobytes() == bits_of(given.astype(wide)).tobytes()


@pytest.mark.parametrize(("name", "most"), [("float8_e4m3fn", 448), ("float8_e5m2", 57344), ("float8_e4m3fnuz", 240)])
def test_the_largest_number_is_tried_first(name, most):
    numbers = mapped_to(name)
    assert numbers[0] == most
    assert list(numbers) == sorted(numbers, reverse=True)
    every = map(float, np.arange(256, dtype=np.uint8).view(np.dtype(name)))
    assert set(numbers) == {number for number in every if 0 < number <= most}
    assert mapped_to("int8")[:3] == (127, 128, 126)


def test_near_a_scale_are_its_neighbours():
    found = near(0.3, np.dtype("float32"))
    assert [float(each) for each in found[:3]] == [
        np.float32(0.3),
        np.nextafter(np.float32(0.3), np.float32(0)),
        np.nextafter(np.float32(0.3), np.float32(1)),
    ]
    assert {each.dtype for each in found} == {np.dtype("float32")}
    powers = near(0.3, np.dtype(ml_dtypes.float8_e8m0fnu))
    assert [float(each) for each in powers] == [0.5, 0.25, 1.0]


@pytest.mark.parametrize(
    ("weight", "told", "said", "blocks"),
    [
        ((512, 256), (), None, (0, 0)),
        ((512, 256), (1, 1), None, (0, 0)),
        ((512, 256), (512,), None, (1, 0)),
        ((512, 256), (512, 1), None, (1, 0)),
        ((512, 256), (4, 2), None, (128, 128)),
        ((500, 130), (4, 2), None, (128, 128)),
        ((500, 130), (4, 2), (128, 128), (128, 128)),
        ((500, 130), (2, 2), (256, 96), (256, 96)),
        ((64, 96), (1, 1), (128, 128), (0, 0)),
        ((512, 256), (512, 8), None, (1, 32)),
        ((8, 512, 256), (8, 4, 2), (128, 128), (1, 128, 128)),
        ((8, 512, 256), (8, 1, 1), None, (1, 0, 0)),
        ((8, 512, 256), (8, 512, 1), None, (1, 1, 0)),
    ],
)
def test_the_shapes_tell_the_blocks(weight, told, said, blocks):
    assert blocks_of(weight, told, said) == blocks
    assert Widen("float32", "int8", blocks, told).shapes((weight, told)) == (weight,)


@pytest.mark.parametrize(
    ("weight", "told", "said"),
    [
        ((512, 256), (3, 2), None),
        ((512, 256), (256,), None),
        ((512, 256), (1, 256, 1), None),
        ((512, 256), (4, 2), (64, 64)),
        ((512, 256), (1, 1), (128, 128)),
        ((512, 256), (0, 2), None),
    ],
)
def test_shapes_that_do_not_go_together(weight, told, said):
    with pytest.raises(WeightsMismatch, match="neither one scale, one for each row, nor one for each block of"):
        blocks_of(weight, told, said)
