"""Numbers of torch's code that Flax has otherwise are computed from what is left between the two."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from port.parity.diagnose.causes.constants import LEAST_VALUES, CodeNumber, bearing, numbers_of, solved, usual
from port.parity.diagnose.causes.rerun import rerun
from port.parity.sides.inputs import inputs_from
from port.parity.sides.torch_side import TorchSide

from .test_functions import Calls

X = torch.rand((3, 7), generator=torch.Generator().manual_seed(4), dtype=torch.float64) + 0.1


def numbers(call: Callable[[torch.Tensor], torch.Tensor]) -> list[CodeNumber]:
    first = rerun(TorchSide(Calls(call), "float64"), inputs_from(X, "float64"), training=False)
    return list(numbers_of(first.operations))


@pytest.mark.parametrize(
    ("formula", "own", "wanted"),
    [
        (lambda x, c: c * torch.tanh(x / c), 30.0, 50.0),
        (lambda x, c: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c), 1e-5, 3e-3),
        (lambda x, c: torch.exp(x * c), 0.5, 0.41),
        (lambda x, c: x + c, 0.25, -0.7),
        (lambda x, c: x / c, 0.07, 0.1),
    ],
)
def test_a_number_is_computed(formula: Callable[..., torch.Tensor], own: float, wanted: float) -> None:
    assert X.numel() >= LEAST_VALUES

    def residual(other: float) -> np.ndarray:
        return (formula(X, wanted) - formula(X, other)).numpy().ravel()

    number = next(number for number in numbers(lambda x: formula(x, own)) if number.value == own)
    start = residual(own)
    bears = bearing(number, residual, start)
    assert bears is not None
    assert bears > 0.01
    *_, last = solved(number, residual, start)
    assert f"{last:.6g}" == f"{wanted:.6g}"
    assert not np.allclose(residual(own), 0)


def test_a_number_that_does_not_bear_is_seen() -> None:
    (number,) = numbers(lambda x: x * 2.0)
    unmoved = np.ones(12)
    assert bearing(number, lambda other: unmoved, unmoved) == 0
    assert bearing(number, lambda other: None, unmoved) is None
    assert list(solved(number, lambda other: unmoved, unmoved)) == []


def test_a_number_is_changed_wherever_it_stands() -> None:
    (number,) = [number for number in numbers(lambda x: 30.0 * torch.tanh(x / 30.0)) if number.value == 30]
    assert [operation.base for operation, _, _ in number.places] == ["div", "mul"]
    side, given = TorchSide(Calls(lambda x: 30.0 * torch.tanh(x / 30.0)), "float64"), inputs_from(X, "float64")
    done = rerun(side, given, training=False, ways={n: way.run for n, way in number.ways(50.0).items()})
    assert torch.allclose(torch.from_numpy(done.outputs[""]), 50 * torch.tanh(X / 50), rtol=1e-14)
    assert "torch has 30" in next(iter(number.ways(50.0).values())).why


def test_lengths_and_axes_are_no_numbers() -> None:
    assert numbers(lambda x: x.reshape(7, 3).sum(0).unsqueeze(1)) == []
    (compared,) = numbers(lambda x: (x < 4).double())
    assert usual(compared) == [5, 3, 6, 2]


def test_what_is_computed_is_no_number() -> None:
    assert [number.value for number in numbers(lambda x: (x - x.mean()) / 3.0)] == [3]


def test_both_bounds_are_one_number() -> None:
    call = lambda x: x.clamp(-0.2, 0.2)  # noqa: E731
    both = next(number for number in numbers(call) if len(number.places) == 2)
    side, given = TorchSide(Calls(call), "float64"), inputs_from(X, "float64")
    done = rerun(side, given, training=False, ways={n: way.run for n, way in both.ways(0.15).items()})
    assert torch.equal(torch.from_numpy(done.outputs[""]), X.clamp(-0.15, 0.15))
    assert "±0.2" in next(iter(both.ways(0.15).values())).why


def test_other_bases_of_frequencies_are_usual() -> None:
    (base,) = numbers(lambda x: 10000.0**-x)
    assert {1e3, 5e5} <= {*usual(base)}
    (logarithm,) = numbers(lambda x: torch.exp(x * -math.log(10000.0)))
    assert any(math.isclose(other, -math.log(1e3)) for other in usual(logarithm))
    (neither,) = numbers(lambda x: x * 9.2)
    assert not any(math.isclose(abs(other), math.log(1e3)) for other in usual(neither))
