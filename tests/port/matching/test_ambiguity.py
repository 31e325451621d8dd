"""Ambiguity: what may be exchanged stays open, what a name or the outputs tell does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from port.matching.ambiguity import are_at_home, are_distinguished_by_names, other_ways, undecided
from port.matching.options import Node, Option
from port.matching.problem import Problem
from port.matching.state import Decision, State
from port.matching.units import Unit

from .chains import Chain, unit

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


def _held(module: str, name: str) -> Node:
    """A parameter that a module of a person's own holds beside its layers; its use is not seen."""
    return (Unit(module, "Block", {name: f"{module}.{name}"}, {name: (3,)}, "own"),)


def _blocks(fc: tuple[str, str]) -> tuple[State, list[Node]]:
    """Two blocks with a layer scale and a linear layer each; the linear layers have these twins."""
    scales = [_held("f0", "gamma"), _held("f1", "gamma")]
    layers: list[Node] = [(unit(f"{block}.fc", kernel=(3, 3)),) for block in ("f0", "f1")]
    twins: list[Node] = [_held("t0", "scale"), _held("t1", "scale"), *((unit(path, weight=(3, 3)),) for path in fc)]
    made = {
        flax: Decision(Option(torch, flax, ()), "order") for flax, torch in zip([*scales, *layers], twins, strict=True)
    }
    return State(made), scales


def test_a_module_tells_whose_its_own_parameters_are() -> None:
    state, scales = _blocks(("t0.fc", "t1.fc"))
    assert are_at_home(state, *scales)
    crossed, scales = _blocks(("t1.fc", "t0.fc"))
    assert not are_at_home(crossed, *scales)
    beside, scales = _blocks(("t0.fc", "t0.other"))
    assert not are_at_home(beside, *scales)
    alone = State({flax: made for flax, made in state.decisions.items() if flax in scales})
    assert not are_at_home(alone, *scales), "nothing is called inside"
    state, scales = _blocks(("t0.fc", "t1.fc"))
    assert not are_at_home(state, scales[0], scales[0]), "two of one module's may be exchanged"


def test_names_tell_the_parameters_of_one_module_apart() -> None:
    ours, theirs = [_held("f0", f"gamma_{n}") for n in (1, 2)], [_held("t0", f"gamma_{n}") for n in (1, 2)]
    for twins, is_told in ((theirs, True), (theirs[::-1], False), ([_held("t0", "a"), _held("t0", "b")], False)):
        made = {flax: Decision(Option(torch, flax, ()), "order") for flax, torch in zip(ours, twins, strict=True)}
        assert are_distinguished_by_names(State(made), *ours) == is_told
    # A layer is called, which tells more than a name.
    layers = [(unit(f"f0.gamma_{n}", kernel=(3, 3)),) for n in (1, 2)]
    twins = [(unit(f"t0.gamma_{n}", weight=(3, 3)),) for n in (1, 2)]
    made = {flax: Decision(Option(torch, flax, ()), "order") for flax, torch in zip(layers, twins, strict=True)}
    assert not are_distinguished_by_names(State(made), *layers)
