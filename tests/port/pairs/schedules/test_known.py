"""A schedule of a person's own: one without a formula is tabulated, from its first step on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch.optim import lr_scheduler as L

import port
from port.errors import UsageError
from port.pairs import SchedulePair, registered
from port.pairs.schedules import pair_of_scheduler, schedule_of
from port.pairs.schedules.kept import classes_that_keep, kept_by


class Drifting(L.LRScheduler):
    """The rate falls by a factor that itself falls with every step."""

    def __init__(self, optimizer: Any, by: float) -> None:
        self.by, self.factor, self.level = by, 1.0, 1.0
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:
        self.level *= self.factor
        self.factor *= self.by
        return [base * self.level for base in self.base_lrs]


def begin(scheduler: Any) -> None:
    scheduler.factor = scheduler.level = 1.0


PAIR = SchedulePair(f"{__name__}.Drifting", lambda scheduler, group, base: None, rewind=begin)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registered, "_pairs", [])
    yield


@pytest.mark.parametrize("taken", [0, 5])
def test_it_is_tabulated_from_its_first_step(live: Any, run: Any, taken: int) -> None:
    scheduler = live(lambda o: Drifting(o, 0.97), taken)
    with pytest.raises(UsageError, match=r"no schedule is known for .*Drifting.*Register a pair for it"):
        schedule_of(scheduler, 0, steps=12)
    port.register(PAIR)
    assert pair_of_scheduler(scheduler) is PAIR
    schedule = schedule_of(scheduler, 0, steps=12)
    assert schedule.count == taken
    wanted, _ = run(live(lambda o: Drifting(o, 0.97)), 12)
    got = [float(schedule.learning_rate.build()(step)) for step in range(12)]
    np.testing.assert_allclose(got, np.asarray(wanted)[:, 0], rtol=1e-6)


def test_one_that_is_not_rewound_is_seen(live: Any) -> None:
    port.register(replace(PAIR, rewind=lambda scheduler: None))
    with pytest.raises(UsageError, match="Drifting alone would have brought it to"):
        schedule_of(live(lambda o: Drifting(o, 0.97), 5), 0, steps=12)


def test_its_state_dict_tells_it_where_the_pair_says_the_keys(live: Any) -> None:
    state = live(lambda o: Drifting(o, 0.97), 5).state_dict()
    port.register(PAIR)
    kept = kept_by(Drifting)
    assert kept is not None
    assert kept.keys is None
    assert not kept.missing(state) and not kept.strange(state)
    assert classes_that_keep(state) == []
    port.register(replace(PAIR, keys=("by", "factor", "level")))
    assert [found.name for found in classes_that_keep(state)] == ["Drifting"]
