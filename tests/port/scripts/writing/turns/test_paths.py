"""What a turn computes again, and what it takes of an earlier one: by whether a gradient goes through it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from port.errors import UsageError
from port.scripts.observing.graph import Computation
from port.scripts.writing.capture import LossPath, PathTensor
from port.scripts.writing.turns.order import Turn
from port.scripts.writing.turns.paths import CarriedTensor, turn_paths
from port.scripts.writing.turns.torch_source import turn_inputs, turn_sources

MODELS = {"G": nn.Linear(3, 2), "D": nn.Linear(2, 1), "criterion": nn.Identity()}
NORMED = {**MODELS, "G": nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))}
WHERE = {"file": "gan.py", "line": 3, "text": ""}
LIVE = None
"""A tensor that autograd goes through has no value in a path."""


def call(number: int, name: str, *args: object, kind: str = "function") -> Computation:
    more = {"has_parameters": name in ("G", "D"), "grad": True} if kind == "module" else {}
    return Computation(number, name, kind, None, None, set(), WHERE, 0, more, (args, {}))


def of(number: int, value: Any = LIVE, variable: str | None = None) -> PathTensor:
    return PathTensor({"call": number, "tensor": "(4, 2) float32"}, number, variable, value)


NOISE = call(1, "torch.randn", 4, 3)
MADE = call(2, "G", of(1, torch.ones(4, 3), "noise"), kind="module")


def loss(first: int, *calls: Computation, inputs: PathTensor) -> LossPath:
    """A path that ends with what D says of something."""
    said = call(first, "D", inputs, kind="module")
    return LossPath(0, [*calls, said, call(first + 1, "criterion", of(first), kind="module")], 0.5)


def detached(number: int) -> tuple[Computation, PathTensor]:
    return call(number, "torch.Tensor.detach", of(2, variable="fake")), of(number, torch.ones(4, 2))


def turn(place: int, name: str, calls: int, root: str) -> Turn:
    return Turn((place,), (name,), ((name, {"where": WHERE, "calls": calls, "roots": [root]}),))


def test_a_generator_is_called_again_where_a_gradient_goes_through_it() -> None:
    cut, inputs = detached(3)
    paths = [loss(4, NOISE, MADE, cut, inputs=inputs), loss(6, NOISE, MADE, inputs=of(2))]
    turns = [turn(0, "opt_D", 5, "D"), turn(1, "opt_G", 7, "G")]
    first, second = turn_paths(turns, paths, MODELS)
    assert [one.number for one in first.path.calls] == [1, 2, 3, 4, 5] and not first.again
    assert [one.number for one in second.path.calls] == [1, 2, 6, 7]
    assert second.again == {"G"} and not second.carried
    assert list(turn_inputs(second, frozenset())) == ["noise"]


def test_points_of_before_a_step_are_taken_and_not_made_again() -> None:
    cut, inputs = detached(5)
    paths = [loss(3, NOISE, MADE, inputs=of(2)), loss(6, NOISE, MADE, cut, inputs=inputs)]
    turns = [turn(0, "opt_G", 4, "G"), turn(1, "opt_D", 7, "D")]
    steps = [turn_paths(turns, paths, MODELS)]
    assert steps[0][1].carried == (CarriedTensor(0, 2, None),) and not steps[0][1].again
    text, (first, second) = turn_sources(turns, steps, "gan.py")
    assert len(first.losses) == 1 and first.gives == ("x1",)
    assert second.takes == {"fake": (0, 1)} and "G" not in second.modules
    compile(text, "torch_loss.py", "exec")


def test_a_model_that_was_stepped_is_not_called_again() -> None:
    paths = [loss(3, NOISE, MADE, inputs=of(2)), loss(6, NOISE, MADE, inputs=of(2))]
    turns = [turn(0, "opt_G", 4, "G"), turn(1, "opt_D", 7, "D")]
    with pytest.raises(UsageError, match=r"gan\.py:3 is needed after the step of opt_G, which changes G"):
        turn_paths(turns, paths, MODELS)


def test_dropout_that_two_losses_share_is_refused() -> None:
    cut, inputs = detached(3)
    paths = [loss(4, NOISE, MADE, cut, inputs=inputs), loss(6, NOISE, MADE, inputs=of(2))]
    turns = [turn(0, "opt_D", 5, "D"), turn(1, "opt_G", 7, "G")]
    with pytest.raises(UsageError, match="the second would have another mask"):
        turn_paths(turns, paths, {**MODELS, "G": nn.Sequential(nn.Linear(3, 2), nn.Dropout())})


def test_what_was_computed_before_a_step_is_not_computed_behind_it() -> None:
    early = call(3, "D", of(1, torch.ones(4, 3), "noise"), kind="module")
    first = loss(4, NOISE, inputs=of(1, torch.ones(4, 3), "noise"))
    late = LossPath(0, [NOISE, early, call(8, "criterion", of(3), kind="module")], 0.5)
    with pytest.raises(UsageError, match="is computed before opt_D steps"):
        turn_paths([turn(0, "opt_D", 5, "D"), turn(1, "opt_G", 8, "G")], [first, late], MODELS)


def test_a_second_call_beside_one_that_is_made_again_is_refused() -> None:
    """Both would move the running statistics, and one of them has moved them before."""
    cut, inputs = detached(3)
    more = call(6, "G", of(1, torch.ones(4, 3), "noise"), kind="module")
    both = call(7, "torch.add", of(2), of(6))
    paths = [loss(4, NOISE, MADE, cut, inputs=inputs), loss(8, NOISE, MADE, more, both, inputs=of(7))]
    turns = [turn(0, "opt_D", 5, "D"), turn(1, "opt_G", 9, "G")]
    assert turn_paths(turns, paths, MODELS)[1].again == {"G"}
    with pytest.raises(UsageError, match="both change its running statistics"):
        turn_paths(turns, paths, NORMED)
