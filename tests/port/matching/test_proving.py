"""Proving: exactly first, and to 1e-6 only where a model goes through float32."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from port.errors import UsageError
from port.mapping import Mapping
from port.matching import proving
from port.matching.proving import ROUNDED, proved


def sides(*, is_narrowed: bool) -> Any:
    return SimpleNamespace(module=None, flax_module=None, inputs=None, options={}, is_narrowed=is_narrowed)


def checks(monkeypatch: pytest.MonkeyPatch, apart: float) -> list[float | None]:
    """Stand in for `port.check`: the two models are apart by so much; its tolerances."""
    asked: list[float | None] = []

    def check(*models: Any, rtol: float | None, **options: Any) -> Any:
        asked.append(rtol)
        findings = [SimpleNamespace(what="forward", mode="evaluation")] if apart > (rtol or 1e-10) else []
        return SimpleNamespace(findings=findings, unjudged=())

    monkeypatch.setattr(proving, "check", check)
    return asked


@pytest.mark.parametrize(
    ("apart", "is_narrowed", "is_proved", "asked"),
    [
        (1e-12, False, True, [None]),
        (1e-12, True, True, [None]),
        (1e-8, True, True, [None, ROUNDED]),
        (1e-8, False, False, [None]),
        (1e-3, True, False, [None, ROUNDED]),
    ],
)
def test_how_exactly(
    monkeypatch: pytest.MonkeyPatch, apart: float, is_narrowed: bool, is_proved: bool, asked: list[float | None]
) -> None:
    tolerances = checks(monkeypatch, apart)
    found = proved(sides(is_narrowed=is_narrowed), Mapping(()), (), "")
    assert found.is_proved == is_proved and tolerances == asked
    assert ("compared to 1e-06" in "".join(found.remarks)) == (len(asked) == 2)


def test_a_proof_that_cannot_be_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*models: Any, **options: Any) -> Any:
        raise UsageError("no backward pass")

    monkeypatch.setattr(proving, "check", check)
    found = proved(sides(is_narrowed=False), Mapping(()), (), "", ("first",))
    assert not found and found.remarks == ("first", "the proof cannot be run: no backward pass")
