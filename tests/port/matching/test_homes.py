"""Modules tell their twins by what is called inside them, and whose the parameters are that they hold."""

from __future__ import annotations

from port.matching.homes import home_of, homed, homes
from port.matching.options import Node, Option
from port.matching.problem import Problem
from port.matching.state import By, Decision, State
from port.matching.units import Unit

from .chains import unit


def _held(module: str, name: str) -> Node:
    """A parameter that a module of a person's own holds; its use is not seen."""
    return (Unit(module, "Block", {name: f"{module}.{name}"}, {name: (3,)}, "own"),)


SCALES = [_held(f"t{i}", "gamma") for i in range(2)], [_held(f"f{i}.scale", "lambda") for i in range(2)]
BIASES = [_held(f"t{i}.attn", "bias") for i in range(2)], [_held(f"f{i}.attention", "bias") for i in range(2)]
LAYERS: tuple[list[Node], list[Node]] = (
    [(unit(f"t{i}.{name}", weight=(3, 3)),) for i in range(2) for name in ("attn.qkv", "fc")],
    [(unit(f"f{i}.{name}", kernel=(3, 3)),) for i in range(2) for name in ("attention.qkv", "mlp.fc")],
)
TORCH = [*SCALES[0], *BIASES[0]]
FLAX = [*SCALES[1], *BIASES[1]]
OPTIONS = {(torch, flax): (Option(torch, flax, ()),) for torch in TORCH for flax in FLAX}
PROBLEM = Problem((*TORCH, *LAYERS[0]), (*FLAX, *LAYERS[1]), OPTIONS)


def _state(twins: list[Node], by: By = "order", layers: tuple[int, ...] = (0, 1, 2, 3)) -> State:
    pairs = [*zip(twins, FLAX, strict=True), *((LAYERS[0][i], flax) for i, flax in zip(layers, LAYERS[1], strict=True))]
    return State({flax: Decision(Option(torch, flax, ()), by) for torch, flax in pairs})


def test_modules_with_the_same_layers_are_homes() -> None:
    known = homes(_state(TORCH))
    assert set(known) == {("t0", "f0"), ("t1", "f1"), ("t0.attn", "f0.attention"), ("t1.attn", "f1.attention")}
    assert home_of(BIASES[1][1], known, 1) == ("t1.attn", "f1.attention")
    assert home_of(SCALES[0][0], known, 0) == ("t0", "f0")
    assert home_of((unit("other.fc", kernel=(3, 3)),), known, 1) is None


def test_parameters_go_home() -> None:
    wrong = [TORCH[2], TORCH[3], TORCH[1], TORCH[0]]
    made = homed(PROBLEM, _state(wrong))
    assert [made.torch(flax) for flax in FLAX] == TORCH
    assert homed(PROBLEM, _state(wrong, "your rule")) == _state(wrong, "your rule")


def test_what_layers_do_not_tell_stays() -> None:
    wrong = [TORCH[1], TORCH[0], TORCH[3], TORCH[2]]
    crossed = _state(wrong, layers=(0, 3, 2, 1))  # a block's layers have twins in two
    assert ("t0", "f0") not in homes(crossed)
    assert [homed(PROBLEM, crossed).torch(flax) for flax in SCALES[1]] == wrong[:2]
    no_way = Problem(PROBLEM.torch, PROBLEM.flax, {})
    assert homed(no_way, _state(wrong)) == _state(wrong)
