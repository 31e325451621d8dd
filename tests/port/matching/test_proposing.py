"""Proposing: by names that are the same, by being the only one, by order, and by the user's renaming."""

from __future__ import annotations

from port.mapping.renaming import Renaming
from port.matching.problem import problem_of
from port.matching.proposing import proposed
from port.matching.units import Unit

from .chains import guide, unit

NEVER = (lambda one, other: False, lambda one, other: False)


def decided(
    torch: list[Unit], flax: list[Unit], renaming: Renaming | None = None, **rivals: int
) -> dict[str, tuple[str, str]]:
    problem = problem_of(torch, flax, guide("flax", *flax), NEVER, {})
    alike = {node: rivals[node[0].path] for node in problem.torch if node[0].path in rivals}
    state = proposed(problem, renaming or Renaming(), alike)
    return {flax[0].path: (made.option.torch[0].path, made.by) for flax, made in state.decisions.items()}


def layers(*paths: str) -> list[Unit]:
    return [unit(path, weight=(3, 2), bias=(3,)) for path in paths]


def kernels(*paths: str) -> list[Unit]:
    return [unit(path, "own", kernel=(2, 3), bias=(3,)) for path in paths]


def test_the_only_one_of_its_shape_needs_no_name() -> None:
    flax = [*kernels("x"), unit("y", "own", kernel=(2, 5), bias=(5,))]
    found = decided([*layers("a"), unit("b", weight=(5, 2), bias=(5,))], flax)
    assert found == {"x": ("a", "kind and shape"), "y": ("b", "kind and shape")}


def test_names_that_are_the_same_come_before_order() -> None:
    assert decided(layers("up", "down"), kernels("down", "up")) == {"down": ("down", "name"), "up": ("up", "name")}


def test_without_names_the_order_of_calls_decides() -> None:
    assert decided(layers("left", "right"), kernels("Dense_0", "Dense_1")) == {
        "Dense_0": ("left", "order"),
        "Dense_1": ("right", "order"),
    }


def test_among_what_is_given_the_same_words_decide() -> None:
    found = decided(layers("fc_mu", "fc_logvar"), kernels("logvar_head", "mean_head"), fc_mu=0, fc_logvar=0)
    assert found == {"logvar_head": ("fc_logvar", "name"), "mean_head": ("fc_mu", "name")}


def test_the_users_renaming_comes_first() -> None:
    found = decided(layers("left", "right"), kernels("Dense_0", "Dense_1"), Renaming({"^right": "Dense_0"}))
    assert found == {"Dense_0": ("right", "your rule"), "Dense_1": ("left", "kind and shape")}


def test_too_many_stay_open() -> None:
    assert decided(layers("a"), kernels("x", "y")) == {}
