"""A rehearsal is the run, without the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch.optim import lr_scheduler as L

from port.errors import UsageError
from port.pairs.schedules.rehearsal import rehearse


def test_from_the_first_step_on_wherever_the_scheduler_stands(live: Any, run: Any) -> None:
    def make(optimizer: Any) -> Any:
        return L.ChainedScheduler([L.OneCycleLR(optimizer, [0.4, 0.2], 20), L.ExponentialLR(optimizer, 0.9)])

    rates, momenta = run(live(make), 15)
    rehearsed = rehearse(live(make, 7), 15)
    np.testing.assert_array_equal(rehearsed[0], rates)
    np.testing.assert_array_equal(rehearsed[1], momenta)
    assert (momenta != momenta[0]).any()
    assert np.abs(rehearse(live(make, 7), 16)[0][1:] - rates).max() > 1e-3


def test_it_ends_where_torch_refuses(live: Any) -> None:
    assert len(rehearse(live(lambda o: L.OneCycleLR(o, 0.4, 20)), 50)[0]) == 21


def test_a_group_without_momentum(live: Any) -> None:
    assert np.isnan(rehearse(live(lambda o: L.StepLR(o, 3), optimizer="Adagrad"), 4)[1]).all()


class Counting:
    """A function with a state of its own."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, epoch: int) -> float:
        self.calls += 1
        if self.calls > 30:
            raise RuntimeError("worn out")
        return 0.9**epoch


def test_functions_keep_their_state(live: Any) -> None:
    function = Counting()
    scheduler = live(lambda o: L.LambdaLR(o, [function, lambda epoch: 1.0]), 4)
    calls = function.calls
    rates, _ = rehearse(scheduler, 12)
    np.testing.assert_allclose(rates[:, 0], 0.3 * 0.9 ** np.arange(12.0), rtol=1e-14)
    assert function.calls == calls


def test_what_cannot_take_its_first_step(live: Any) -> None:
    function = Counting()
    scheduler = live(lambda o: L.LambdaLR(o, function))
    function.calls = 30
    with pytest.raises(UsageError, match="LambdaLR cannot be stepped: worn out"):
        rehearse(scheduler, 3)
