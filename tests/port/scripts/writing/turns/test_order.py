"""Whose gradients each optimizer takes: found from what the script clears, and when it steps."""

from __future__ import annotations

from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.writing.capture import LossPath
from port.scripts.writing.turns.order import optimizers_in_turn, turns_of

BOTH = {"D.weight", "G.weight"}
Events = list[dict[str, Any]]


def event(kind: str, line: int, **more: Any) -> dict[str, Any]:
    return {"event": kind, "where": {"file": "gan.py", "line": line, "text": ""}, "calls": line, **more}


def zero(of: str, line: int = 1) -> dict[str, Any]:
    return event("zero_grad", line, of=of, by_hand=False)


def update(name: str, line: int = 9) -> dict[str, Any]:
    return event("update", line, name=name, by_hand=False)


def observed(*steps: Events) -> Observation:
    models = [{"name": name, "parameters": [{"name": "weight", "trained": True}]} for name in "DG"]
    optimizers = [{"name": f"opt_{name}", "groups": [{"parameters": [f"{name}.weight"]}]} for name in "DG"]
    return Observation({}, models=models, optimizers=optimizers, steps=list(steps))


def losses(*reached: set[str]) -> list[LossPath]:
    return [LossPath(0, [], 0.0, frozenset(one)) for one in reached]


DISCRIMINATOR_FIRST = [
    zero("D"),
    event("backward", 2),
    event("backward", 3),
    update("opt_D"),
    zero("opt_G"),
    event("backward", 5),
    update("opt_G"),
]


def test_a_discriminator_takes_two_losses_and_the_generator_one() -> None:
    paths = losses({"D.weight"}, {"D.weight"}, BOTH)
    observation = observed(DISCRIMINATOR_FIRST, DISCRIMINATOR_FIRST)
    assert optimizers_in_turn(observation) == ["opt_D", "opt_G"]
    first, second = turns_of(observation, [paths, paths])
    assert (first.losses, first.trains, [name for name, _ in first.updates]) == ((0, 1), ("opt_D",), ["opt_D"])
    assert (second.losses, second.trains, second.updates[0][1]["roots"]) == ((2,), ("opt_G",), ["G"])


def test_one_loss_of_two_optimizers_is_one_turn() -> None:
    step = [zero("D"), zero("G"), event("backward", 2), update("opt_D"), update("opt_G")]
    (turn,) = turns_of(observed(step, step), [losses(BOTH)] * 2)
    assert turn.trains == ("opt_D", "opt_G") and [name for name, _ in turn.updates] == ["opt_D", "opt_G"]


def test_gradients_through_a_fake_that_is_not_detached_are_the_generators_too() -> None:
    """Where both are cleared at the top, the generator's step takes what the discriminator's loss has left."""
    step = [
        zero("D"),
        zero("G"),
        event("backward", 2),
        update("opt_D"),
        event("backward", 4),
        update("opt_G"),
    ]
    first, second = turns_of(observed(step, step), [losses(BOTH, BOTH)] * 2)
    assert first.trains == ("opt_D", "opt_G") and second.trains == ("opt_G",)


def test_gradients_that_nothing_clears_are_refused() -> None:
    step = [event("backward", 2), update("opt_D"), zero("G"), event("backward", 5), update("opt_G")]
    with pytest.raises(UsageError, match=r"gan.py:9.* uses gradients left by an earlier step"):
        turns_of(observed(step, step), [losses({"D.weight"}, BOTH)] * 2)


def test_another_order_in_a_later_step_is_refused() -> None:
    without = DISCRIMINATOR_FIRST[:4]
    paths = [losses({"D.weight"}, {"D.weight"}, BOTH), losses({"D.weight"}, {"D.weight"})]
    with pytest.raises(UsageError, match=r"step 0: opt_D, then opt_G; step 1: opt_D"):
        turns_of(observed(DISCRIMINATOR_FIRST, without), paths)


def test_a_loss_that_no_update_takes_is_refused() -> None:
    step = [*DISCRIMINATOR_FIRST, event("backward", 11)]
    with pytest.raises(UsageError, match=r"no update of the same step uses the gradients of gan.py:11"):
        turns_of(observed(step), [losses({"D.weight"}, {"D.weight"}, BOTH, BOTH)])


def test_a_parameter_without_gradient_is_refused() -> None:
    with pytest.raises(UsageError, match=r"whose G\.weight has no gradient"):
        turns_of(observed(DISCRIMINATOR_FIRST), [losses({"D.weight"}, {"D.weight"}, {"D.weight"})])
