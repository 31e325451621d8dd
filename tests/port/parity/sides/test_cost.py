"""What a comparison costs is estimated from the operators, and so is how long it takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from port.errors import UsageError
from port.parity.sides import duration
from port.parity.sides.cost import Cost, cost_of


def cost(module: nn.Module, *shape: int) -> Cost:
    return cost_of(module, ((torch.zeros(*shape),), {}))


def test_products_and_convolutions_are_counted_apart() -> None:
    assert cost(nn.Linear(30, 20), 4, 30).products == 2 * 4 * 30 * 20
    plain = cost(nn.Conv2d(8, 6, 3, padding=1), 2, 8, 5, 5)
    assert (plain.convolutions, plain.grouped, plain.looped) == (2 * 2 * 25 * 9 * 8 * 6, 0, 0)
    strided = cost(nn.Conv2d(8, 6, 3, padding=1, stride=2), 2, 8, 5, 5)
    assert strided.looped == strided.convolutions == 2 * 2 * 9 * 9 * 8 * 6
    depthwise = cost(nn.Conv2d(8, 8, 3, padding=1, groups=8), 2, 8, 5, 5)
    assert depthwise.grouped == 2 * 2 * 25 * 9 * 8 and depthwise.looped == 8 * depthwise.grouped


def test_operators_and_results_are_counted_and_views_are_not() -> None:
    one, two = cost(nn.Tanh(), 3, 4), cost(nn.Sequential(nn.Tanh(), nn.Flatten(), nn.Tanh()), 3, 4)
    assert (one.operators, two.operators, one.results, two.results) == (1, 2, 48, 96)
    assert one.scaled(2) == Cost(results=96, operators=1)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_loop_is_compiled_once_however_long_it_is(kind: Any) -> None:
    # In float32 torch calls oneDNN's.
    layer = kind(4, 5, num_layers=2).double()
    short, long = (cost_of(layer, ((torch.zeros(length, 2, 4).double(),), {})) for length in (10, 100))
    assert short.operators == long.operators and 5 * short.products < long.products


def test_nothing_is_known_of_what_looks_at_its_numbers() -> None:
    class Looking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if float(x.sum()) > 0 else -x

    assert cost(Looking(), 3) == Cost()


def test_it_lasts_longer_with_gradients_operators_and_numbers() -> None:
    known = Cost(results=1e9, operators=100, products=1e12, convolutions=1e12, grouped=1e10, looped=1e11)
    for seconds in (duration.seconds_compiled, lambda cost, **k: duration.seconds_one_by_one(cost, steps=3, **k)):
        assert seconds(known, gradients=True) > 1.5 * seconds(known, gradients=False) > 100
        for name in ("operators", "products", "convolutions", "grouped", "looped", "results"):
            assert seconds(Cost(**{name: getattr(known, name)}), gradients=True) > 0
    assert duration.seconds_compiled(Cost(), gradients=True) == 0


def test_how_long_it_takes_in_words() -> None:
    words = [duration.duration(seconds) for seconds in (0.2, 1, 89, 90, 240, 5399, 5400, 10_000)]
    assert words == [
        "1 second",
        "1 second",
        "89 seconds",
        "2 minutes",
        "4 minutes",
        "90 minutes",
        "2 hours",
        "3 hours",
    ]
    assert duration.announcement(240) == "comparing takes about 4 minutes" and not duration.announcement(40)
    assert not duration.overtime(899, 900)
    assert duration.overtime(7200, 900) == "it would take about 2 hours, and the time limit is 15 minutes"


@pytest.mark.parametrize("limit", [0, -1, float("nan"), True, "900", None])
def test_a_time_limit_is_above_zero(limit: Any) -> None:
    with pytest.raises(UsageError, match="the time limit is a number of seconds above 0"):
        duration.time_limit_of(limit)
