"""A proof that does not fit runs at smaller lengths, and what cannot be compared is not a difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import port
from models.keeping import Keeping, X
from port.judging import Status
from port.parity.sides.cost import Cost, cost_of
from port.translation import Translation
from port.translation.verify import OriginalAndWritten, prove, proving

MODULE = Keeping()


@pytest.fixture(scope="module")
def translation() -> Translation:
    return port.translate(MODULE, X, check=False)


def proof(translation: Translation, monkeypatch: pytest.MonkeyPatch, fits: Callable[..., bool]) -> Any:
    monkeypatch.setattr(proving, "fits", fits)
    return prove(MODULE, translation, (X,), {})


@pytest.mark.sweep
def test_at_smaller_lengths_it_is_judged_and_says_so(translation: Translation, monkeypatch: pytest.MonkeyPatch) -> None:
    results = cost_of(MODULE, ((X,), {})).results

    def fits(cost: Cost, *, gradients: bool, parts: int = 1) -> bool:
        return cost.results <= results / 4

    found = proof(translation, monkeypatch, fits)
    assert found.status is Status.AGREE
    assert found.lengths.startswith("n = ") and "example" not in found.lengths, "it says where it ran"
    assert any("in place of the example's lengths: about" in remark for remark in found.remarks)
    wrong = replace(translation, source=translation.source.replace("nnx.relu(", "nnx.relu6(1.1 * "))
    assert wrong.source != translation.source
    assert proof(wrong, monkeypatch, fits).status is Status.DIFFER


@pytest.mark.sweep
def test_without_gradients_the_outputs_are_judged_alone(
    translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fits(cost: Cost, *, gradients: bool, parts: int = 1) -> bool:
        return not gradients

    found = proof(translation, monkeypatch, fits)
    assert found.status is Status.CANNOT_JUDGE and "did not fit into memory" in found.unjudged
    assert [row.what for row in found.rows] == ["outputs in evaluation", "outputs in training"]
    assert all(row.agrees for row in found.rows)
    wrong = replace(translation, source=translation.source.replace("nnx.relu(", "nnx.relu6(1.1 * "))
    assert proof(wrong, monkeypatch, fits).status is Status.DIFFER, "what is there is judged"


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes")]
)
def test_memory_that_runs_out_is_no_difference(
    error: Exception, translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs_out(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(proving, "flax_run", runs_out)
    found = prove(MODULE, translation, (X,), {})
    assert found.status is Status.CANNOT_JUDGE and "the run in evaluation did not fit" in found.unjudged
    monkeypatch.setattr(proving, "flax_run", lambda *_: 1 / 0)
    found = prove(MODULE, translation, (X,), {})
    assert found.status is Status.DIFFER and "ZeroDivisionError" in found.failed


def test_an_interruption_gives_what_was_compared(translation: Translation, monkeypatch: pytest.MonkeyPatch) -> None:
    run = proving.flax_run

    def interrupted(*args: Any) -> Any:
        if args[2]:  # training
            raise KeyboardInterrupt
        return run(*args)

    monkeypatch.setattr(proving, "flax_run", interrupted)
    found = prove(MODULE, translation, (X,), {})
    assert found.status is Status.CANNOT_JUDGE and "interrupted" in found.unjudged
    assert {row.what for row in found.rows} >= {"outputs in evaluation", "gradients in evaluation"}


@pytest.mark.sweep
def test_what_would_take_too_long_is_compared_at_smaller_lengths(
    translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = 2 * cost_of(MODULE, ((X,), {})).results  # float64's

    def seconds(cost: Cost, *, gradients: bool) -> float:
        return 1000 * cost.results / results

    monkeypatch.setattr(proving, "seconds_compiled", seconds)
    monkeypatch.setattr(OriginalAndWritten, "seconds", lambda sides, sizes=None: 1.0)
    found = prove(MODULE, translation, (X,), {}, time_limit=600)
    assert found.status is Status.AGREE and found.lengths.startswith("n = ")
    said = "in place of the example's lengths: it would take about 33 minutes, and the time limit is 10 minutes"
    assert any(said in remark for remark in found.remarks), found.remarks
    wrong = replace(translation, source=translation.source.replace("nnx.relu(", "nnx.relu6(1.1 * "))
    assert prove(MODULE, wrong, (X,), {}, time_limit=600).status is Status.DIFFER


@pytest.mark.sweep
def test_where_only_the_forward_pass_is_short_enough_outputs_are_judged_alone(
    translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "seconds_compiled", lambda cost, *, gradients: 1000.0 if gradients else 1.0)
    found = prove(MODULE, translation, (X,), {}, time_limit=600)
    assert found.status is Status.CANNOT_JUDGE and "a longer --time-limit" in found.unjudged
    assert [row.what for row in found.rows] == ["outputs in evaluation", "outputs in training"]
    wrong = replace(translation, source=translation.source.replace("nnx.relu(", "nnx.relu6(1.1 * "))
    assert prove(MODULE, wrong, (X,), {}, time_limit=600).status is Status.DIFFER, "what is there is judged"
    monkeypatch.setattr(proving, "seconds_compiled", lambda cost, *, gradients: 1000.0)
    found = prove(MODULE, translation, (X,), {}, time_limit=600)
    assert found.status is Status.CANNOT_JUDGE and not found.rows and "it would take about 33 minutes" in found.unjudged


@pytest.mark.sweep
def test_other_lengths_are_left_out_that_would_take_too_long(
    translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = replace(translation, lengths=replace(translation.lengths, tried=({"n": 2}, {"n": 3})))
    notices: list[str] = []
    monkeypatch.setattr(OriginalAndWritten, "seconds", lambda sides, sizes=None: 300.0 if sizes == {"n": 3} else 10.0)
    found = prove(MODULE, settled, (X,), {}, time_limit=200, tell=notices.append)
    assert notices == ["comparing takes about 3 minutes"], "no more than it may"
    assert found.status is Status.AGREE and found.lengths == "the example's lengths; n = 2"
    assert "not compared at n = 3: that would go beyond the time limit of 3 minutes (--time-limit)" in found.remarks
    notices.clear()
    monkeypatch.setattr(OriginalAndWritten, "seconds", lambda sides, sizes=None: 10.0)
    found = prove(MODULE, settled, (X,), {}, tell=notices.append)
    assert not notices and found.lengths == "the example's lengths; n = 2; n = 3"
