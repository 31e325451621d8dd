"""A comparison that does not fit into memory, or is interrupted, says what it compared; it is no difference."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest
import torch
from flax import nnx
from torch import Tensor, nn

import port
from models.keeping import Keeping, X
from port.judging import Status
from port.parity import CheckReport, comparison
from port.parity.sides import extent, fitting
from port.parity.sides.cost import Cost, cost_of

from ...translation.false_alarms.undifferentiable import ChangedForBackward


class FlaxNet(nnx.Module):
    def __init__(self, scale: float = 1.0) -> None:
        self.conv = nnx.Conv(3, 4, (3, 3), rngs=nnx.Rngs(0))
        self.norm = port.nn.BatchNorm(4, rngs=nnx.Rngs(0))
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return self.scale * nnx.relu(self.norm(self.conv(x))).mean((1, 2))


MODULE = Keeping()


def checked(scale: float = 1.0) -> CheckReport:
    return port.check(MODULE, FlaxNet(scale), X, weights="torch")


def test_the_estimate_grows_with_batch_and_parameters_and_leaves_the_module_alone() -> None:
    small, large = (fitting.bytes_needed(cost_of(MODULE, ((x,), {})), gradients=True) for x in (X[:2], X))
    assert 2.5 * small < large < 3.5 * small
    assert fitting.bytes_needed(cost_of(MODULE, ((X,), {})), gradients=False) < large / 1.5
    linear = cost_of(nn.Linear(400, 300), ((torch.zeros(1, 400),), {}))
    wide = fitting.bytes_needed(linear, gradients=False)
    assert 4 * 4 * 400 * 300 < wide < 5 * 4 * 400 * 300
    assert type(MODULE.last) is Tensor and MODULE.training
    assert fitting.bytes_free() > 10**7


@pytest.mark.sweep
def test_without_gradients_the_outputs_and_buffers_are_judged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit(cost: Cost, *, gradients: bool, parts: int = 1) -> str:
        return "it does not fit" if gradients else ""

    monkeypatch.setattr(extent, "unfit", unfit)
    report = checked()
    assert report.status is Status.CANNOT_JUDGE and report.unjudged == ("it does not fit",)
    assert report.compared["outputs"] == 2 and report.compared["buffers"] and "gradients" not in report.compared
    assert checked(1.5).status is Status.DIFFER, "what is there is judged"


def test_what_does_not_fit_at_all_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "bytes_free", lambda: 1000)
    report = checked()
    assert report.status is Status.CANNOT_JUDGE and not report.compared
    assert "does not fit into memory (about 0.0 GB are needed" in report.unjudged[0]
    assert "use a smaller batch" in str(report)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes"), KeyboardInterrupt()]
)
def test_what_was_compared_before_it_ended_is_reported(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = comparison.compare_mode

    def ends_in_training(*args: Any, training: bool) -> Any:
        if training:
            raise error
        return compare(*args, training=training)

    monkeypatch.setattr(comparison, "compare_mode", ends_in_training)
    report = checked()
    assert (
        report.status is Status.CANNOT_JUDGE and report.compared["gradients"] and set(report.layers) == {"evaluation"}
    )
    assert ("interrupted" if isinstance(error, KeyboardInterrupt) else "did not fit") in report.unjudged[0]
    assert checked(1.5).status is Status.DIFFER


def test_another_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "compare_mode", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checked()


class FlaxChanged(nnx.Module):
    """`ChangedForBackward` as a person would port it."""

    def __init__(self, shift: float = 1.0) -> None:
        self.layer = nnx.Linear(8, 6, rngs=nnx.Rngs(0))
        self.shift = shift

    def __call__(self, x: Any) -> Any:
        return 2 * (jnp.exp(self.layer(x)) + self.shift)


def test_where_torch_has_no_gradient_it_is_said_and_the_rest_is_judged() -> None:
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(3))
    report = port.check(ChangedForBackward(), FlaxChanged(), x, weights="torch")
    assert report.status is Status.AGREE, str(report)
    assert any("since torch has none: one of the variables" in remark for remark in report.remarks)
    assert port.check(ChangedForBackward(), FlaxChanged(1.5), x, weights="torch").status is Status.DIFFER


@pytest.mark.sweep
def test_what_would_take_too_long_is_compared_without_gradients_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(cost: Cost, *, steps: int, gradients: bool, parts: int = 1) -> float:
        return 1000.0 if gradients else 100.0

    monkeypatch.setattr(extent, "seconds_one_by_one", seconds)
    told: list[str] = []
    report = port.check(MODULE, FlaxNet(), X, weights="torch", time_limit=600, tell=told.append)
    assert told == ["comparing takes about 2 minutes"]
    assert report.status is Status.CANNOT_JUDGE and "set a longer --time-limit" in report.unjudged[0]
    assert report.compared["outputs"] == 2 and "gradients" not in report.compared
    assert port.check(MODULE, FlaxNet(1.5), X, weights="torch", time_limit=600).status is Status.DIFFER
    report = port.check(MODULE, FlaxNet(), X, weights="torch", time_limit=60, tell=told.append)
    assert report.status is Status.CANNOT_JUDGE and not report.compared and len(told) == 1
    assert "it would take about 17 minutes, and the time limit is 60 seconds" in report.unjudged[0]
    told.clear()
    assert port.check(MODULE, FlaxNet(), X, weights="torch", time_limit=2000, tell=told.append).agree
    assert told == ["comparing takes about 17 minutes"]
