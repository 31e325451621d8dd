"""What the tests of optimizers share: float64, and an MLP with its recorded gradients."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from models.recorded import Recorded, mlp


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with jax.enable_x64(True):
        return mlp()
