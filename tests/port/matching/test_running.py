"""What a run of a state shows: its score, its output, and that each state runs once."""

from __future__ import annotations

import numpy as np
import pytest

from port.matching import running
from port.matching.running import outputs_apart
from port.parity.sides.inputs import InputLayout

from .chains import Chain


@pytest.mark.usefixtures("float64")
def test_a_state_is_scored_by_what_its_layers_are_given() -> None:
    chain = Chain(3)
    right = chain.runs(chain.right)
    assert right.agree and right.score == 2 * 3
    wrong = chain.runs(chain.state(1, 0, 2))
    assert not wrong.agree and wrong.score == 0  # layer 0 is given what torch's first is, and holds its second
    assert chain.runs(chain.state(0, 2, 1)).score == 1


@pytest.mark.usefixtures("float64")
def test_each_state_runs_once_and_only_so_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(2)
    chain.runs(chain.right), chain.runs(chain.right), chain.runs(chain.state(1, 0))
    assert chain.count == 2 and not chain.runs.are_spent
    monkeypatch.setattr(running, "MOST_RUNS", 2)
    assert chain.runs.are_spent


def test_by_how_much_outputs_are_apart() -> None:
    torch = {"": np.array([[1.0, 2.0, -3.0]])}
    apart = outputs_apart(torch, InputLayout(2, 1, None, ()))
    assert apart(torch) == 0 and apart({"": torch[""] * (1 + 1e-6)}) == pytest.approx(1e-6)
    assert apart({"": torch[""], "more": torch[""]}) == float("inf")
    whole = outputs_apart({"": np.arange(3)}, InputLayout(1, 0, None, ()))
    assert whole({"": np.arange(3)}) == 0 and whole({"": np.arange(3) + 1}) == float("inf")
