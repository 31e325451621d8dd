"""Layers with weights on torch's own samples: every constructor argument and input of its module database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

NAMES = (
    "Linear",
    "Bilinear",
    *(f"{lazy}{kind}{d}d" for kind in ("Conv", "ConvTranspose") for lazy in ("", "Lazy") for d in (1, 2, 3)),
    *(f"BatchNorm{d}d" for d in (1, 2, 3)),
    *(f"InstanceNorm{d}d" for d in (1, 2, 3)),
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
    "Embedding",
    "PReLU",
)
TOLERANCE = 1e-10


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thin(3)
def test_a_sample(name: str, training: bool, sides: Any, samples: Callable[..., list[Any]]) -> None:
    check(name, samples(name, training)[-1], sides)


@pytest.mark.sweep
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_sample(
    name: str, training: bool, sides: Any, samples: Callable[..., list[Any]], subtests: pytest.Subtests
) -> None:
    for sample in samples(name, training):
        with subtests.test(f"{sample.constructor_input.args} {sample.constructor_input.kwargs} {sample.desc}"):
            check(name, sample, sides)


def check(name: str, sample: Any, sides: Any) -> None:
    made = getattr(torch.nn, name)(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    inputs = [*sample.forward_input.args, *sample.forward_input.kwargs.values()]
    if name.startswith("Lazy"):
        made(*(value.to(torch.float32) for value in inputs))  # becomes its plain self
    both = sides(made)
    both.check_weights()
    assert both.difference(*inputs) < TOLERANCE
