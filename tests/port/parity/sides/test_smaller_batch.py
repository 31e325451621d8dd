"""What does not fit with its batch is compared with a smaller one, and the report says so."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import Tensor, nn

import port
from port.judging import Status
from port.parity import CheckReport
from port.parity.sides import extent, fitting
from port.parity.sides.cost import Cost
from port.parity.sides.inputs import Inputs, inputs_from
from port.parity.sides.smaller_batch import batch_size, largest_batch, with_batch
from port.parity.sides.torch_side import TorchSide

X, SHIFT = (torch.randn(12, width, generator=torch.Generator().manual_seed(width)) for width in (5, 7))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 7)
        self.norm = nn.BatchNorm1d(7)

    def forward(self, x: Tensor, shift: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.layer(x)) + shift).relu()


class FlaxNet(nnx.Module):
    def __init__(self, scale: float = 1.0) -> None:
        self.layer = nnx.Linear(5, 7, rngs=nnx.Rngs(0))
        self.norm = port.nn.BatchNorm(7, rngs=nnx.Rngs(0))
        self.scale = scale

    def __call__(self, x: Any, shift: Any) -> Any:
        return nnx.relu(jnp.tanh(self.norm(self.layer(x)) + self.scale * shift))


@pytest.fixture
def memory_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the gradients of so many samples fit."""
    needed = fitting.bytes_needed

    def only(samples: int) -> None:
        def bytes_needed(cost: Cost, *, gradients: bool, parts: int = 1) -> float:
            most = Cost(results=cost.results) if gradients else Cost()
            return needed(most, gradients=gradients)

        # Four operators give 7 numbers each; a copy of the input is none of them.
        monkeypatch.setattr(fitting, "bytes_needed", bytes_needed)
        monkeypatch.setattr(fitting, "bytes_free", lambda: samples * 2 * 8 * 7 * 8)

    return only


def checked(scale: float = 1.0, **options: Any) -> CheckReport:
    return port.check(Net(), FlaxNet(scale), (X, SHIFT), weights="torch", **options)


@pytest.mark.sweep
def test_the_first_samples_are_compared_and_it_is_said(memory_for: Any) -> None:
    memory_for(3)
    report = checked()
    assert report.status is Status.AGREE and report.compared["gradients"], str(report)
    assert any(r.startswith("compared with a batch of 3 in place of 12: about ") for r in report.remarks)
    assert checked(1.001).status is Status.DIFFER


@pytest.mark.sweep
def test_what_would_take_too_long_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(cost: Cost, *, steps: int, gradients: bool, parts: int = 1) -> float:
        return cost.results

    monkeypatch.setattr(extent, "seconds_one_by_one", seconds)
    side = TorchSide(Net(), "float64")
    whole = side.cost(inputs_from((X, SHIFT), "float64")).results
    report = checked(time_limit=0.6 * whole)
    assert report.agree and any("a batch of 6 in place of 12: it would take" in r for r in report.remarks), str(report)


@pytest.mark.sweep
def test_with_flax_inputs_given_apart_the_batch_stays(memory_for: Any) -> None:
    memory_for(3)
    report = checked(flax_inputs=(X.numpy(), SHIFT.numpy()))
    assert report.status is Status.CANNOT_JUDGE and "batch of" not in " ".join(report.remarks)


@pytest.mark.sweep
def test_with_a_loss_the_batch_stays(memory_for: Any) -> None:
    memory_for(3)
    report = checked(loss=(lambda y: (y * SHIFT).sum(), lambda y: (y * SHIFT.numpy()).sum()))
    assert report.status is Status.CANNOT_JUDGE and "batch of" not in " ".join(report.remarks)


@pytest.mark.sweep
def test_what_fits_stays_whole(memory_for: Any) -> None:
    memory_for(50)
    assert not any("batch of" in remark for remark in checked().remarks)


def test_the_batch_is_what_all_arrays_share() -> None:
    both = inputs_from(({"x": X}, SHIFT), "float64")
    assert batch_size(both) == 12
    fewer = with_batch(both, 5)
    np.testing.assert_array_equal(fewer.args[0]["x"], X.numpy()[:5])
    assert fewer.args[1].shape == (5, 7)
    assert batch_size(inputs_from((X, SHIFT[:4]), "float64")) is None
    assert batch_size(inputs_from((X, torch.tensor(2.0)), "float64")) is None
    assert batch_size(inputs_from((3,), "float64")) is None


def test_it_is_halved_down_to_two_and_left_where_the_model_is_written_for_it() -> None:
    tried: list[int] = []

    def cost(inputs: Inputs) -> Cost:
        tried.append(inputs.args[0].shape[0])
        return Cost(results=inputs.args[0].nbytes)

    given = inputs_from(X[:8], "float64")
    found = largest_batch(given, cost, lambda cost: cost.results <= 4 * 5 * 8)
    assert found is not None and (found.size, found.inputs.args[0].shape) == (4, (4, 5))
    tried.clear()
    assert largest_batch(given, cost, lambda cost: False) is None and tried == [4, 2]
    assert largest_batch(given, lambda inputs: Cost(), lambda cost: True) is None
