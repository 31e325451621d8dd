"""Every translation that a test makes is verified behind each of its passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from port.translation import argument_selection
from port.translation.ir.instrumentation import verifying, watching_passes
from port.translation.structure.kept_constructors import CannotKeep


@pytest.fixture(autouse=True)
def _verified() -> Iterator[None]:
    with watching_passes(verifying):
        yield


@pytest.fixture
def from_what_they_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no constructor of the original: write all of them from their results."""

    def refuse(*_: Any) -> None:
        raise CannotKeep("a test")

    monkeypatch.setattr(argument_selection, "calls_of", refuse)
