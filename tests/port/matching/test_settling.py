"""Settling: layers change places by what they are given; the user's word and frozen nodes stay."""

from __future__ import annotations

import pytest

from port.matching.settling import settled

from .chains import Chain

pytestmark = pytest.mark.usefixtures("float64")


def test_layers_go_to_the_twins_that_are_given_the_same() -> None:
    chain = Chain(4)
    for start in ((1, 0, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)):
        assert chain.twins(settled(chain.runs, chain.state(*start))) == ["t0", "t1", "t2", "t3"]


def test_a_layer_that_had_no_twin_takes_one_that_is_free() -> None:
    chain = Chain(2)
    state = chain.right.without({chain.flax[1]})
    found = settled(chain.runs, state)
    assert chain.twins(found) == ["t0", "t1"] and found.decisions[chain.flax[1]].by == "activations"


def test_the_users_word_and_frozen_nodes_stay() -> None:
    chain = Chain(2)
    assert chain.twins(settled(chain.runs, chain.state(1, 0, by="your rule"))) == ["t1", "t0"]
    assert chain.twins(settled(chain.runs, chain.state(1, 0), frozenset(chain.flax))) == ["t1", "t0"]


def test_nothing_moves_behind_what_differs() -> None:
    chain = Chain(3, wrong=0)
    assert chain.twins(settled(chain.runs, chain.state(0, 2, 1))) == ["t0", "t2", "t1"]
