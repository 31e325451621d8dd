"""Rivals: who could have whose twin, and in which orders they are tried."""

from __future__ import annotations

import pytest

from port.matching.rivals import permuted, rivals

from .chains import Chain

pytestmark = pytest.mark.usefixtures("float64")


def test_rivals_are_given_the_same() -> None:
    chain = Chain(3, beside=True)
    assert [flax[0].path for flax in rivals(chain.runs, chain.right, chain.flax[0])] == ["f0", "f1"]
    assert rivals(chain.runs, chain.right, chain.flax[2]) == ()
    assert rivals(chain.runs, chain.state(0, 1, 2, by="your rule"), chain.flax[0]) == ()


def test_a_few_are_tried_in_all_orders_and_many_two_by_two() -> None:
    chain = Chain(6)
    few = [chain.twins(state)[:3] for state in permuted(chain.runs, chain.right, tuple(chain.flax[:3]))]
    assert len(few) == 5 and len({tuple(order) for order in few}) == 5 and ["t0", "t1", "t2"] not in few
    many = [chain.twins(state) for state in permuted(chain.runs, chain.right, tuple(chain.flax))]
    assert len(many) == 15 and many[0] == ["t1", "t0", "t2", "t3", "t4", "t5"]
