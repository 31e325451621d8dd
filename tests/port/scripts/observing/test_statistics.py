"""Running statistics as the first update found them: what its own calls do to them is not in, what was before is."""

from __future__ import annotations

import torch
from torch import nn

from port.scripts.observing.statistics import MOST_CALLS, FirstStatistics


def test_the_first_update_begins_with_what_a_look_before_has_left() -> None:
    norm = nn.BatchNorm1d(3)
    seen = FirstStatistics()
    found = []
    for number in (1, 2, 3):  # a sanity check, then two microbatches
        assert norm.running_mean is not None
        found.append(norm.running_mean.clone())
        seen.before_call(norm, number)
        norm(torch.randn(8, 3))
    before = seen.before([2, 3])[id(norm.running_mean)]
    assert torch.equal(before, found[1])
    assert not torch.equal(before, found[0]) and not torch.equal(before, found[2])  # it has a way to fail
    assert torch.equal(seen.before([1, 2, 3])[id(norm.running_mean)], found[0])


def test_no_more_is_kept_than_is_needed() -> None:
    norm = nn.BatchNorm1d(3)
    seen = FirstStatistics()
    seen.before_call(norm.eval(), 1)
    assert not seen.before([1])  # in evaluation nothing moves
    for number in range(2, MOST_CALLS + 4):
        seen.before_call(norm.train(), number)
    assert not seen.before([3]) and seen.before([MOST_CALLS + 3])
    seen.end()
    seen.before_call(norm, 100)
    assert not seen.before([100])
