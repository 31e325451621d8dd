"""Every translation that a test makes is verified behind each of its passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from port.translation.ir.instrumentation import verifying, watching_passes


@pytest.fixture(autouse=True)
def _verified() -> Iterator[None]:
    with watching_passes(verifying):
        yield
