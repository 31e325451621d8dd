"""Which tokens are drawn: as the logits' processors of ``transformers`` have it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.nn.functional import warped


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.6},
        {"top_k": 4},
        {"top_p": 0.7},
        {"top_p": 0.02},
        {"top_k": 99},
        {"temperature": 1.7, "top_k": 9, "top_p": 0.8},
    ],
)
def test_as_transformers_has_them(options: dict[str, float], float64: None) -> None:
    warpers = pytest.importorskip("transformers.generation.logits_process", reason="an extra of the tests'")
    logits = np.random.default_rng(0).normal(size=(5, 21)) * 2
    logits[1, 3] = logits[1, 8] = logits[1].max()  # ties
    expected = torch.from_numpy(logits)
    for name, warper in (
        ("temperature", warpers.TemperatureLogitsWarper),
        ("top_k", warpers.TopKLogitsWarper),
        ("top_p", warpers.TopPLogitsWarper),
    ):
        if name in options:
            expected = warper(options[name])(torch.zeros(5, 1, dtype=torch.long), expected)
    np.testing.assert_allclose(warped(jnp.asarray(logits), **options), expected.numpy(), rtol=1e-15)
    if options != {"top_k": 99}:
        assert not np.allclose(logits, expected.numpy())
