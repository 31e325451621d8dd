"""Improving: layers that are given the same are told apart by what comes after them; other moves are tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from port.matching.improving import improved
from port.matching.problem import Problem
from port.matching.state import Decision, State
from port.moves import Permute

from .chains import Chain

pytestmark = pytest.mark.usefixtures("float64")


def test_branches_are_told_apart_by_what_follows() -> None:
    chain = Chain(3, beside=True)
    found = improved(chain.runs, chain.state(1, 0, 2))
    assert chain.twins(found) == ["t0", "t1", "t2"] and chain.runs(found).agree


def test_what_nothing_makes_better_stays() -> None:
    chain = Chain(3, wrong=0, beside=True)
    assert chain.twins(improved(chain.runs, chain.state(1, 0, 2))) == ["t1", "t0", "t2"]


def test_other_moves_are_tried_for_all_layers_that_are_alike() -> None:
    chain = Chain(2)
    options = {}
    for pair, (usual,) in chain.problem.options.items():
        (match,) = usual.found
        straight = replace(usual, found=(replace(match, moves=()),), note="as it is")
        assert match.moves == (Permute((1, 0)),)
        options[pair] = (straight, usual)
    chain.runs.problem = chain.problem = Problem(chain.problem.torch, chain.problem.flax, options)
    state = chain.right.decided({flax: Decision(options[torch, flax][0], "order")
                                 for torch, flax in zip(chain.torch, chain.flax, strict=True)})  # fmt: skip
    assert not chain.runs(state).agree
    found = improved(chain.runs, state)
    assert chain.runs(found).agree and {made.option.note for made in found.decisions.values()} != {"as it is"}


def test_a_name_gives_way_only_to_a_state_that_agrees() -> None:
    # More layers are given what their twins are once the first two have changed places; the last still differs.
    chain = Chain(4, wrong=3, beside=True)
    start = chain.state(1, 0, 2, 3)
    assert chain.twins(improved(chain.runs, start)) == ["t0", "t1", "t2", "t3"]
    named = start.decided({flax: replace(made, by="name") for flax, made in start.decisions.items()})
    assert chain.twins(improved(chain.runs, named)) == ["t1", "t0", "t2", "t3"]
    right = Chain(4, beside=True)
    named = State({flax: replace(made, by="name") for flax, made in right.state(1, 0, 2, 3).decisions.items()})
    assert right.twins(improved(right.runs, named)) == ["t0", "t1", "t2", "t3"]
