"""Muon against torch.optim.Muon: equal but where a float32 sum lies between two bfloat16s."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
import torch
from torch.optim._muon import _zeropower_via_newtonschulz as torch_orthogonalized

from port.errors import UnknownChoice, UsageError
from port.transforms import muon
from port.transforms.muon import KELLER_JORDAN, orthogonalized, torch_muon

FIELDS = {"momentum_buffer": "momentum_buffer"}
MATRICES = {"wide": (3, 5), "tall": (6, 2), "row": (1, 7)}
OPTIONS = [
    {},
    {"nesterov": False, "momentum": 0.6, "weight_decay": 0.0, "adjust_lr_fn": "original"},
    {"ns_coefficients": (3.0, -3.2, 1.2), "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw"},
    {"eps": 20.0, "adjust_lr_fn": "spectral_unclamped"},  # more than any norm here
]
# One step in twenty may meet a sum that lies between two bfloat16s.
MOST: dict[str, Any] = {"shapes": MATRICES, "steps": 20, "all_but": 0.05}
ours = cache(torch_muon)  # compiled once


def rounded_product(left: jax.Array, right: jax.Array) -> jax.Array:
    """The fault: to bfloat16 once before the sum that the product enters, and once after."""
    product = jnp.matmul(left, right, preferred_element_type=jnp.float32)
    return jax.lax.reduce_precision(product, exponent_bits=8, mantissa_bits=7)


def torchs(**options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Muon(parameters, lr=0.05, **options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thin(4)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(0.05, **options), FIELDS, **MOST)
    assert max(differences.values()) <= 1e-12, differences


@pytest.mark.sweep
def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, **MOST, restart=10)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, **MOST)
    assert max(differences.values()) <= 1e-5, differences


def test_a_schedule_by_injection(beside_torch: Any, float64: None) -> None:
    def falling(step: Any) -> Any:
        return 0.1 / (1 + 0.2 * step)

    injected = optax.inject_hyperparams(torch_muon)(falling)
    differences = beside_torch(torchs(), injected, FIELDS, **MOST, rates=falling)
    assert max(differences.values()) <= 1e-12, differences


def test_a_product_rounded_before_its_sum_is_seen(
    beside_torch: Any, float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(muon, "_product", rounded_product)
    differences = beside_torch(torchs(), torch_muon(0.05), FIELDS, **MOST)
    assert differences["parameter wide"] > 1e-4
    assert differences["momentum_buffer wide"] <= 1e-12


@pytest.mark.sweep
def test_optax_differs(beside_torch: Any, float64: None) -> None:
    theirs = optax.contrib.muon(0.05, weight_decay=0.1)
    assert beside_torch(torchs(), theirs, {"momentum_buffer": None}, **MOST)["parameter wide"] > 1e-3


def one_step_apart(shape: tuple[int, int]) -> tuple[float, float]:
    """The share of entries that one Newton-Schulz step leaves different, and the most bfloat16s between two."""
    matrix = np.random.default_rng(3).normal(0.1, 1, shape).astype(np.float32)
    expected = torch_orthogonalized(torch.tensor(matrix), KELLER_JORDAN, 1, 1e-7).contiguous().view(torch.int16).numpy()
    step = jax.jit(partial(orthogonalized, coefficients=KELLER_JORDAN, eps=1e-7, steps=1))
    got = np.asarray(step(jnp.asarray(matrix))).view(np.int16)
    apart = np.abs(got.astype(np.int32) - expected)
    return float((apart != 0).mean()), int(apart.max())


@pytest.mark.parametrize("shape", [(48, 64), (130, 70)])
def test_larger_matrices_differ_where_a_sum_lies_between_two_bfloat16s(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    share, apart = one_step_apart(shape)
    assert share <= 2e-3 and apart <= 1, (share, apart)
    monkeypatch.setattr(muon, "_product", rounded_product)
    assert one_step_apart(shape)[0] > 1e-2


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\['bias'\] has shape \(3,\)"):
        torch_muon().init({"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)})
    with pytest.raises(UsageError, match=r"has shape \(2, 3, 1\)"):
        torch_muon().update(jnp.ones((2, 3, 1)), torch_muon().init(jnp.ones((2, 3))), jnp.ones((2, 3, 1)))


def test_options_that_torch_refuses() -> None:
    with pytest.raises(UsageError, match="fewer than 100"):
        torch_muon(ns_steps=100)
    with pytest.raises(UnknownChoice, match="there are: original"):
        torch_muon(adjust_lr_fn="orignal")
    with pytest.raises(UsageError, match="torch_muon reads the parameters"):
        torch_muon().update(jnp.ones((2, 3)), torch_muon().init(jnp.ones((2, 3))))
