"""ReduceLROnPlateau follows an evaluation's loss where a script gives it a mean of that, and is refused elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from port.errors import UsageError
from port.scripts import Observation
from port.scripts.writing.plateau import check_follows, options_of, plateau_step
from port.scripts.writing.unwritten import remarks_beside

WHERE = {"file": "train.py", "line": 7, "function": "<module>", "text": "scheduler.step(found)"}
MADE = [
    {"name": "scheduler", "kind": "torch.optim.lr_scheduler.ReduceLROnPlateau", "schedulers": [], "constructed": None}
]


LOSS = ("model", "torch.nn.functional.cross_entropy")
RIGHT = ("model", "torch.Tensor.argmax", "torch.Tensor.__eq__", "torch.Tensor.sum")


def path(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def number(value: float, line: int = 3, calls: tuple[str, ...] = LOSS) -> dict[str, Any]:
    return {"event": "number", "value": value, "where": {**WHERE, "line": line}, "path": path(*calls)}


def batch(length: int) -> dict[str, Any]:
    return {"event": "batch", "parts": {"0": f"({length}, 3) float32", "1": f"({length},) int64"}}


def observed(given: float, *, in_steps: bool = False) -> Observation:
    event = {"event": "schedule", "name": "scheduler", "where": WHERE, "given": [given]}
    evaluation = [batch(4), number(0.5), number(3.0, 4, RIGHT), batch(2), number(1.0), number(2.0, 4, RIGHT)]
    step = [{"event": "backward", "path": path(*LOSS)}, *([event] if in_steps else [])]
    return Observation({}, schedulers=MADE, steps=[step], epoch=[event], evaluation=evaluation)


@pytest.mark.parametrize("given", [0.75, 2 / 3, 0.25])
def test_means_of_an_evaluation(given: float) -> None:
    """Over batches, over examples, of sums over examples."""
    seen = observed(given)
    event = plateau_step(seen)
    assert event is not None
    check_follows(seen, event, evaluates=True)
    with pytest.raises(UsageError, match=r"call after_evaluation\(state, number\)"):
        check_follows(seen, event, evaluates=False)


@pytest.mark.parametrize("given", [0.8, 5 / 6, 2.5])
def test_another_number_is_refused(given: float) -> None:
    """Also how many are right, of all or in a batch."""
    seen = observed(given)
    event = plateau_step(seen)
    assert event is not None
    with pytest.raises(UsageError, match=r"train\.py:7.* no mean of the evaluation's losses"):
        check_follows(seen, event, evaluates=True)


def test_with_every_update_it_is_refused() -> None:
    with pytest.raises(UsageError, match="value=loss"):
        plateau_step(observed(0.75, in_steps=True))
    assert plateau_step(Observation({}, steps=[[]])) is None


def test_its_options_are_the_optimizers() -> None:
    source = "optimizer = transforms.reduce_on_torch_plateau(lambda r: optax.adam(r), 0.01, factor=0.5, mode='max')"
    assert options_of(source) == ", factor=0.5, mode='max'" and options_of("optimizer = optax.adam(0.01)") == ""


def test_a_scheduler_that_was_never_stepped_is_told() -> None:
    assert not remarks_beside(observed(0.75))
    (remark,) = remarks_beside(Observation({}, schedulers=MADE, steps=[[]]))
    assert "scheduler was not stepped while the script was watched" in remark
