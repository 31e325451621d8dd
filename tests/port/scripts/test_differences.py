"""What is not the same in all watched steps."""

from __future__ import annotations

from typing import Any

from port.scripts.differences import differences_between

WHERE = {"file": "train.py", "line": 7, "text": "loss.backward()"}


def update(lr: float) -> dict[str, Any]:
    groups = [{"lr": lr, "betas": [0.9, 0.99]}]
    return {"event": "update", "name": "optimizer", "by_hand": False, "groups": groups, "where": WHERE}


def backward(number: int, factor: float) -> dict[str, Any]:
    arguments = {"positional": [{"call": number, "tensor": "() float32"}, factor], "named": {}}
    call = {"number": number, "kind": "function", "name": "torch.Tensor.mul", "arguments": arguments, "where": WHERE}
    return {"event": "backward", "loss": factor, "path": [call], "where": WHERE}


def test_steps_that_only_have_other_batches_do_not_differ() -> None:
    assert differences_between([[backward(3, 0.5), update(0.1)], [backward(9, 0.5), update(0.1)]]) == []
    assert differences_between([[update(0.1)]]) == []


def test_a_rate_a_number_and_an_event_that_only_some_have() -> None:
    steps = [[backward(3, 0.5), update(0.1)], [backward(9, 0.25), update(0.2), update(0.2)]]
    found = {(one["kind"], tuple(one["values"])) for one in differences_between(steps)}
    assert found == {("option", (0.1, 0.2)), ("number", (0.5, 0.25)), ("count", (1, 2))}
