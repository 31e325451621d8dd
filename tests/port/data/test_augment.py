"""Augmentation draws the same pixels for a (seed, epoch, index), whoever asks and in whatever order."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from port.data import DATASETS, Augmented, Examples, PlannedIndex
from port.data.augment import shift, shift_and_flip

SQUARE = np.array([[[1], [2]], [[3], [4]]], np.uint8)  # (2, 2, 1)


class Drawn:
    """A generator whose draws are known beforehand."""

    def __init__(self, top: int, left: int, coin: float = 0.5) -> None:
        self.place, self.coin = (top, left), coin

    def integers(self, low: int, high: int, size: int) -> tuple[int, int]:
        assert (low, high, size) == (0, 3, 2)  # 1 pixel of padding on either side: three places
        return self.place

    def random(self) -> float:
        return self.coin


@pytest.fixture
def images() -> Examples:
    pixels = np.random.default_rng(0).integers(1, 256, (20, 6, 5, 3), np.uint8)
    return Examples(pixels, np.arange(20, dtype=np.int32))


def augmented(images: Examples, seed: int = 0) -> Augmented:
    return Augmented(images, partial(shift_and_flip, padding=2), seed=seed)


@pytest.mark.parametrize(
    ("top", "left", "expected"),
    [
        (1, 1, [[1, 2], [3, 4]]),
        (0, 0, [[0, 0], [0, 1]]),
        (2, 2, [[4, 0], [0, 0]]),
        (1, 0, [[0, 1], [0, 3]]),
        (0, 1, [[0, 0], [1, 2]]),
        (2, 1, [[3, 4], [0, 0]]),
    ],
)
def test_shift_by_hand(top: int, left: int, expected: list[list[int]]) -> None:
    assert shift(SQUARE, Drawn(top, left), padding=1)[..., 0].tolist() == expected


@pytest.mark.parametrize(("coin", "mirrored"), [(0.0, True), (0.49, True), (0.5, False)])
def test_flip_by_hand(coin: float, mirrored: bool) -> None:
    expected = [[2, 1], [4, 3]] if mirrored else [[1, 2], [3, 4]]
    assert shift_and_flip(SQUARE, Drawn(1, 1, coin), padding=1)[..., 0].tolist() == expected


def test_flip_comes_after_shift() -> None:
    assert shift_and_flip(SQUARE, Drawn(1, 0, 0.0), padding=1)[..., 0].tolist() == [[1, 0], [3, 0]]


def test_every_place_is_drawn() -> None:
    one = np.ones((1, 1, 1), np.uint8)
    dataset = Augmented([(np.pad(one, ((2, 2), (2, 2), (0, 0))), 0)] * 500, partial(shift, padding=2), seed=0)
    places = {tuple(np.argwhere(image[..., 0])[0].tolist()) for image, _ in dataset}
    assert places == {(top, left) for top in range(5) for left in range(5)}


def test_half_of_the_images_are_mirrored() -> None:
    dataset = Augmented([(SQUARE, 0)] * 1000, partial(shift_and_flip, padding=0), seed=0)
    mirrored = sum(image[0, 0, 0] == 2 for image, _ in dataset)
    assert 420 < mirrored < 580  # five standard deviations


def test_a_draw_depends_on_nothing_that_was_drawn_before(images: Examples) -> None:
    order = [PlannedIndex(index, epoch) for epoch in range(3) for index in range(len(images))]
    forwards = {(index, index.epoch): augmented(images)[index][0] for index in order}
    dataset = augmented(images)
    for index in np.random.default_rng(1).permutation(len(order)):
        image, label = dataset[order[index]]
        np.testing.assert_array_equal(image, forwards[order[index], order[index].epoch])
        assert label == order[index]


@pytest.mark.parametrize(
    ("seed", "epoch", "shown"),
    [(0, 0, True), (1, 0, False), (0, 1, False), (1, 1, False)],
)
def test_seed_and_epoch_count(seed: int, epoch: int, shown: bool, images: Examples) -> None:
    first = [augmented(images)[PlannedIndex(index, 0)][0] for index in range(len(images))]
    second = [augmented(images, seed)[PlannedIndex(index, epoch)][0] for index in range(len(images))]
    assert np.array_equal(first, second) is shown


def test_the_index_counts() -> None:
    """Equal images at different places are augmented differently."""
    image = np.arange(25, dtype=np.uint8).reshape(5, 5, 1)
    dataset = Augmented([(image, 0)] * 20, partial(shift, padding=2), seed=0)
    assert len({drawn.tobytes() for drawn, _ in dataset}) > 10


def test_a_plain_index_is_epoch_0(images: Examples) -> None:
    dataset = augmented(images)
    for index in (3, np.int64(3)):
        np.testing.assert_array_equal(dataset[index][0], dataset[PlannedIndex(3, 0)][0])
    assert len(dataset) == len(images)


@pytest.mark.parametrize("name", DATASETS)
def test_shape_and_type_are_kept(name: str) -> None:
    info = DATASETS[name]
    pixels = np.random.default_rng(0).integers(0, 256, info.image_shape, np.uint8)
    before: Any = pixels.copy()
    dataset = Augmented([(pixels, 3)] * 10, info.augmentation, seed=0)
    for image, label in dataset:
        assert (image.shape, image.dtype, label) == (info.image_shape, np.uint8, 3)
        assert image.flags.c_contiguous
    np.testing.assert_array_equal(pixels, before)  # the dataset's own are left alone


def test_the_draws_never_change() -> None:
    """Not between platforms, releases of numpy or our own: an old record could not be repeated."""
    image = np.zeros((5, 5, 1), np.uint8)
    image[2, 2] = 1
    dataset = Augmented([(image, 0)] * 3, partial(shift_and_flip, padding=2), seed=1)
    places = [np.argwhere(dataset[PlannedIndex(index, 2)][0][..., 0])[0].tolist() for index in range(3)]
    assert places == [[3, 3], [2, 3], [1, 0]]
