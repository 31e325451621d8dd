"""Where windows lie: what torch's outputs show of it, for every small size."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from port.errors import UsageError
from port.nn.functional.windows import adaptive_bounds, each_axis, pads, positions, windows_along


def test_the_number_of_windows_and_their_first_and_last_elements_are_torchs() -> None:
    seen = 0
    for length, kernel, stride, padding, dilation, ceil in product(
        range(1, 8), range(1, 4), range(1, 5), range(2), (1, 2), (False, True)
    ):
        if 2 * padding > dilation * (kernel - 1) + 1:
            continue
        rising, falling = torch.arange(float(length))[None, None], -torch.arange(float(length))[None, None]
        try:
            last = F.max_pool1d(rising, kernel, stride, padding, dilation, ceil)[0, 0]
            first = -F.max_pool1d(falling, kernel, stride, padding, dilation, ceil)[0, 0]
        except RuntimeError:
            with pytest.raises(UsageError):
                windows_along(length, kernel, stride, padding, dilation, ceil)
            continue
        count = windows_along(length, kernel, stride, padding, dilation, ceil)
        assert count == len(last)
        if not last.isfinite().all():
            with pytest.raises(UsageError, match="nothing but padding"):
                positions(length, count, kernel, stride, padding, dilation)
            continue
        held = positions(length, count, kernel, stride, padding, dilation)
        np.testing.assert_array_equal(held.min(1), first.numpy())
        np.testing.assert_array_equal(held.max(1), last.numpy())
        seen += 1
    assert seen > 400


def test_the_padding_makes_room_for_as_many_windows() -> None:
    for length, kernel, stride, padding in product(range(1, 8), range(1, 4), range(1, 5), range(2)):
        if 2 * padding > kernel or length + 2 * padding < kernel:
            continue
        for ceil in (False, True):
            count = windows_along(length, kernel, stride, padding, ceil=ceil)
            before, after = pads(length, count, kernel, stride, padding)
            assert (length + before + after - kernel) // stride + 1 == count


def test_adaptive_windows_are_torchs() -> None:
    for length, count in product(range(1, 12), range(1, 12)):
        x = torch.arange(float(length))[None, None]
        begin, end = adaptive_bounds(length, count)
        np.testing.assert_array_equal(end - 1, F.adaptive_max_pool1d(x, count)[0, 0].numpy())
        np.testing.assert_array_equal(begin, -F.adaptive_max_pool1d(-x, count)[0, 0].numpy())


def test_one_number_is_meant_for_every_axis() -> None:
    assert each_axis(3, 2, "stride") == each_axis((3,), 2, "stride") == (3, 3)
    assert each_axis([1, 2], 2, "stride") == (1, 2)
    with pytest.raises(UsageError, match="stride needs a number for each of 2 spatial axes"):
        each_axis((1, 2, 3), 2, "stride")
