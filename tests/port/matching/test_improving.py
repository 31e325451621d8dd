"""Improving: layers that are given the same are told apart by what comes after them; other moves are tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from port.matching.improving import improved
from port.matching.problem import Problem
from port.matching.state import Decision
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
