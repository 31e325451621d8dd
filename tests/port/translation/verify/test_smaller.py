"""A proof that does not fit is made smaller, and what cannot be compared is no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import port
from models.keeping import Keeping, X
from port.judging import Status
from port.translation import Translation
from port.translation.verify import prove, proving

MODULE = Keeping()


@pytest.fixture(scope="module")
def translation() -> Translation:
    return port.translate(MODULE, X, check=False)


def proof(translation: Translation, monkeypatch: pytest.MonkeyPatch, fits: Callable[..., bool]) -> Any:
    monkeypatch.setattr(proving, "fits", fits)
    return prove(MODULE, translation, (X,), {})


def test_at_smaller_lengths_it_is_judged_and_says_so(translation: Translation, monkeypatch: pytest.MonkeyPatch) -> None:
    def fits(module: Any, given: Any, *, gradients: bool) -> bool:
        return given[0][0].numel() <= X.numel() // 8

    found = proof(translation, monkeypatch, fits)
    assert found.status is Status.AGREE
    assert found.lengths.startswith("n = ") and "example" not in found.lengths, "it says where it ran"
    assert any("in place of the example's lengths: about" in remark for remark in found.remarks)
    wrong = replace(translation, source=translation.source.replace("nnx.relu(", "nnx.relu6(1.1 * "))
    assert wrong.source != translation.source
    assert proof(wrong, monkeypatch, fits).status is Status.DIFFER


def test_without_gradients_the_outputs_are_judged_alone(
    translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fits(module: Any, given: Any, *, gradients: bool) -> bool:
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
        if args[3]:
            raise KeyboardInterrupt
        return run(*args)

    monkeypatch.setattr(proving, "flax_run", interrupted)
    found = prove(MODULE, translation, (X,), {})
    assert found.status is Status.CANNOT_JUDGE and "interrupted" in found.unjudged
    assert {row.what for row in found.rows} >= {"outputs in evaluation", "gradients in evaluation"}
