"""Resizing against torch's interpolate, in float64 and float32: every mode up, down, and by odd factors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import port.nn.functional as ours
from port.errors import UnknownChoice, UsageError

TOLERANCE, VISIBLE = 1e-12, 1e-3
LENGTHS = (7, 5, 6)
MODES = {
    1: ("nearest", "nearest-exact", "area", "linear"),
    2: ("nearest", "nearest-exact", "area", "bilinear", "bicubic", "lanczos"),
    3: ("nearest", "nearest-exact", "area", "trilinear"),
}
ANTIALIASED = ("bilinear", "bicubic", "lanczos")


def random(spatial: int, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(0).normal(0.5, 2, (2, 3, *LENGTHS[:spatial])).astype(dtype)


def differences(against_torch: Any, given: dict[str, Any], spatial: int, **faults: Any) -> float:
    seen = against_torch(
        partial(F.interpolate, **given),
        lambda x: jnp.moveaxis(ours.interpolate(x, **(given | faults)), -1, 1),
        random(spatial),
        channels=1,
    )
    return max(seen.values())


def variants(spatial: int, mode: str) -> Iterator[dict[str, Any]]:
    sizes = [LENGTHS, (14, 10, 12), (11, 9, 10), (3, 2, 4), (1, 1, 1), (1, 9, 13)]
    factors = [0.5, 0.7, 1.7, 2.0, 2.3, (1.3, 0.6, 2.7)]
    for corners in (None,) if mode in ("nearest", "nearest-exact", "area", "lanczos") else (False, True):
        for smooth in {1: (False,), 2: (False, True)}.get(spatial if mode in ANTIALIASED else 1, (False,)):
            if mode == "lanczos" and not smooth:
                continue
            options = {"mode": mode, "align_corners": corners, "antialias": smooth}
            yield from (options | {"size": size[:spatial]} for size in sizes)
            for factor in factors:
                scale = factor[:spatial] if isinstance(factor, tuple) else factor
                yield from (options | {"scale_factor": scale, "recompute_scale_factor": r} for r in (None, True))


CASES = [(spatial, mode) for spatial, modes in MODES.items() for mode in modes]


@pytest.mark.sweep
@pytest.mark.parametrize(("spatial", "mode"), CASES)
def test_W21_every_variant(spatial: int, mode: str, against_torch: Any, subtests: pytest.Subtests) -> None:
    for given in variants(spatial, mode):
        with subtests.test(str(given)):
            assert differences(against_torch, given, spatial) <= TOLERANCE


@pytest.mark.parametrize(
    ("spatial", "given"),
    [
        (1, {"mode": "linear", "size": 11, "align_corners": True}),
        (2, {"mode": "nearest", "scale_factor": 1.7}),
        (2, {"mode": "nearest-exact", "size": (11, 3)}),
        (2, {"mode": "bilinear", "scale_factor": (1.3, 0.6)}),
        (2, {"mode": "bicubic", "size": (4, 9), "align_corners": True}),
        (2, {"mode": "bicubic", "size": (3, 2), "antialias": True}),
        (2, {"mode": "area", "scale_factor": 0.7}),
        (3, {"mode": "trilinear", "scale_factor": 1.4, "recompute_scale_factor": True}),
    ],
    ids=str,
)
def test_W21_values_and_gradients(spatial: int, given: dict[str, Any], against_torch: Any) -> None:
    assert differences(against_torch, given, spatial) <= TOLERANCE


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"mode": "nearest", "scale_factor": 1.7}, {"mode": "nearest-exact"}),
        ({"mode": "bilinear", "scale_factor": 1.7, "align_corners": False}, {"align_corners": True}),
        ({"mode": "bilinear", "scale_factor": 1.7, "align_corners": False}, {"recompute_scale_factor": True}),
        ({"mode": "bilinear", "size": (3, 2)}, {"antialias": True}),
        ({"mode": "bicubic", "size": (9, 8)}, {"mode": "bilinear"}),
        ({"mode": "area", "size": (3, 2)}, {"mode": "bilinear"}),
    ],
    ids=str,
)
def test_W21_another_option_is_seen(given: dict[str, Any], fault: dict[str, Any], against_torch: Any) -> None:
    assert differences(against_torch, given, 2, **fault) > VISIBLE


@pytest.mark.parametrize(
    ("mode", "method", "size"),
    [("nearest", "nearest", (3, 2)), ("bicubic", "cubic", (9, 8)), ("bilinear", "linear", (3, 2))],
)
def test_W21_jax_image_resize_is_another(mode: str, method: str, size: tuple[int, int], float64: None) -> None:
    x = random(2)
    expected = F.interpolate(torch.from_numpy(x), size, mode=mode).numpy()
    assert np.abs(jax.image.resize(jnp.asarray(x), expected.shape, method) - expected).max() > VISIBLE


@pytest.mark.filterwarnings("ignore")
def test_torchs_antialias_to_width_one_depends_on_its_memory_format() -> None:
    """So it is not followed there: torch itself gives our values for the same image turned, or with channels last."""
    x = random(2)
    given = {"size": (3, 1), "mode": "bilinear", "antialias": True}
    with jax.enable_x64(True):
        got = np.moveaxis(np.asarray(ours.interpolate(jnp.asarray(np.moveaxis(x, 1, -1)), **given)), -1, 1)
    last = torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
    assert np.abs(got - F.interpolate(last, **given).numpy()).max() <= TOLERANCE
    turned = F.interpolate(torch.from_numpy(x).mT.contiguous(), **(given | {"size": (1, 3)})).mT
    assert np.abs(got - turned.numpy()).max() <= TOLERANCE


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("mode", MODES[2])
def test_the_dtype_is_kept(mode: str, dtype: str, float64: None) -> None:
    call = partial(ours.interpolate, size=(3, 9), mode=mode, antialias=mode == "lanczos")
    given = jax.ShapeDtypeStruct((2, 5, 7, 3), jnp.dtype(dtype))
    output, gradient = jax.eval_shape(lambda x: (call(x), jax.grad(lambda x: call(x).sum())(x)), given)
    assert output.dtype == given.dtype
    assert gradient == given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either a size"),
        ({"size": 3, "scale_factor": 2.0}, "either a size"),
        ({"size": 3, "recompute_scale_factor": True}, "nothing to recompute"),
        ({"size": (3, 4, 5)}, "for each of 2 spatial axes"),
        ({"scale_factor": 0.1}, "at least 1"),
        ({"size": 3, "mode": "trilinear"}, "spatial axes, got 2"),
        ({"size": 3, "mode": "nearest", "align_corners": False}, "has no align_corners"),
        ({"size": 3, "mode": "nearest", "antialias": True}, "antialias goes with"),
        ({"size": 3, "mode": "lanczos"}, "needs antialias"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ours.interpolate(jnp.ones((2, 5, 7, 3)), **options)


def test_a_mode_that_there_is_not_is_refused_with_the_nearest_first() -> None:
    with pytest.raises(UnknownChoice, match="'cubic'; there are: bicubic"):
        ours.interpolate(jnp.ones((2, 5, 7, 3)), 3, mode="cubic")
