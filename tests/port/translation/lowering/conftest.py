"""Both sides in float64."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield
