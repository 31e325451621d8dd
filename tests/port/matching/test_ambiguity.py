"""Ambiguity: what may be exchanged stays open, what a name or the outputs tell does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from port.matching.ambiguity import other_ways, undecided
from port.matching.problem import Problem

from .chains import Chain

pytestmark = pytest.mark.usefixtures("float64")


def test_layers_that_may_be_exchanged_are_undecided() -> None:
    chain = Chain(3, beside=True, mirrored=True)
    found = undecided(chain.runs, chain.right)
    assert {flax[0].path: [torch[0].path for torch in twins] for flax, twins in found.items()} == {
        "f0": ["t0", "t1"],
        "f1": ["t1", "t0"],
    }


def test_layers_that_the_output_tells_apart_are_decided() -> None:
    assert undecided((chain := Chain(3, beside=True)).runs, chain.right) == {}


def test_what_names_tell_is_not_asked_again() -> None:
    chain = Chain(3, beside=True, mirrored=True)
    assert undecided(chain.runs, chain.state(0, 1, 2, by="name")) == {}


def test_moves_that_agree_as_well_are_named_both() -> None:
    chain = Chain(2)
    pair = chain.torch[1], chain.flax[1]
    (usual,) = chain.problem.options[pair]
    chain.runs.problem = Problem(
        chain.problem.torch,
        chain.problem.flax,
        {**chain.problem.options, pair: (usual, replace(usual, note="the same again"))},
    )
    assert {flax[0].path: [way.note for way in ways] for flax, ways in other_ways(chain.runs, chain.right).items()} == {
        "f1": [usual.note, "the same again"]
    }
    (match,) = usual.found
    other = replace(usual, found=(replace(match, moves=()),), note="another")
    chain.runs.problem = Problem(
        chain.problem.torch, chain.problem.flax, {**chain.problem.options, pair: (usual, other)}
    )
    assert other_ways(chain.runs, chain.right) == {}


def test_where_float32_lets_both_agree_the_far_nearer_is_meant() -> None:
    chain = Chain(3, beside=True, tolerances=(10.0, 10.0))
    right, swapped = chain.runs(chain.right), chain.runs(chain.state(1, 0, 2))
    assert right.agree and swapped.agree and right.apart < 1e-12 < 1e-3 < swapped.apart
    assert undecided(chain.runs, chain.right) == {}
