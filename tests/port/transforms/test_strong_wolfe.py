"""The line search by itself, against the function inside torch, on functions that lead it everywhere."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.transforms.strong_wolfe import Point, _cubic_interpolate, strong_wolfe

# The package's attribute of that name is the class.
lbfgs = importlib.import_module("torch.optim.lbfgs")


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def value_and_gradient(xp: Any, x: Any, a: Any) -> tuple[Any, Any]:
    """Waves in a bowl, beside a wall beyond which it is NaN: rows of ``a``, one number a parameter."""
    wall = 1 - x / a[4]
    barrier = a[5] * xp.log(wall)
    value = a[0] * x**2 + a[1] * xp.sin(a[2] * x) + a[3] * x**4 - barrier
    gradient = 2 * a[0] * x + a[1] * a[2] * xp.cos(a[2] * x) + 4 * a[3] * x**3 + a[5] / (a[4] * wall)
    gradient = gradient + 0 * barrier  # NaN where the value is
    # Rounded to a grid, so that both sides see the same bits: a search divides differences of losses by differences
    # of lengths, and decides, and a last bit would grow to another way.
    return xp.round(value.sum() * 2**30) / 2**30, xp.round(gradient * 2**30) / 2**30


def problems(count: int, *, wall: bool) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Coefficients, the place to start from, and the first step length; downhill along minus the gradient."""
    random = np.random.default_rng(0)
    for _ in range(count):
        a = random.normal(size=(6, 3)) * np.array([[0.5], [1], [3], [0.3], [0], [0]])
        a[3] = np.abs(a[3])
        a[4], a[5] = random.uniform(1.5, 3, 3) if wall else 1e9, 0.2 * wall
        yield a, random.uniform(-1, 1, 3), 10 ** random.uniform(-1, 1)


def torch_search(a: np.ndarray, x: np.ndarray, t: float, **options: Any) -> tuple[float, float, np.ndarray, int]:
    coefficients, place = torch.tensor(a), torch.tensor(x)

    def along(x: torch.Tensor, t: Any, d: torch.Tensor) -> tuple[float, torch.Tensor]:
        value, gradient = value_and_gradient(torch, x + t * d, coefficients)
        return float(value), gradient

    loss, gradient = along(place, 0, place)
    d = -gradient
    f, g, t, evaluations = lbfgs._strong_wolfe(along, place, t, d, loss, gradient, gradient.dot(d), **options)
    return float(t), float(f), g.numpy(), evaluations


@jax.jit
def jax_search(
    a: jax.Array, x: jax.Array, t: jax.Array, max_ls: int, tolerance_change: float, c2: float
) -> tuple[Point, jax.Array]:
    loss, gradient = value_and_gradient(jnp, x, a)
    d = -gradient
    return strong_wolfe(
        lambda t: value_and_gradient(jnp, x + t * d, a),
        t,
        d,
        loss,
        gradient,
        gradient @ d,
        max_ls=max_ls,
        tolerance_change=tolerance_change,
        c2=c2,
    )


def differences(
    count: int = 100,
    *,
    wall: bool = False,
    max_ls: int = 25,
    tolerance_change: float = 1e-9,
    c2: float = 0.9,
    torch_c2: float | None = None,
) -> Iterator[tuple[float, int, int]]:
    """The largest relative difference of the points found, and both numbers of evaluations."""
    for a, x, t in problems(count, wall=wall):
        theirs = torch_search(
            a, x, t, max_ls=max_ls, tolerance_change=tolerance_change, c2=c2 if torch_c2 is None else torch_c2
        )
        point, evaluations = jax_search(a, x, jnp.asarray(t), max_ls, tolerance_change, c2)
        off = 0.0
        for his, ours in zip(theirs, point[:3], strict=False):
            assert np.isfinite(his).all() == np.isfinite(ours).all()
            if np.isfinite(his).all():
                off = max(off, float(np.linalg.norm(his - ours) / max(1e-3, np.linalg.norm(his))))
        yield off, theirs[3], int(evaluations)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"c2": 0.1},
        {"c2": 0.001, "tolerance_change": 1e-2},
        {"max_ls": 0},
        {"max_ls": 1},
        {"max_ls": 3, "c2": 0.01},
        {"wall": True, "c2": 0.1},
    ],
    ids=str,
)
def test_the_same_point_after_as_many_evaluations(options: dict[str, Any]) -> None:
    seen = Counter[int]()
    for off, theirs, ours in differences(**options):
        assert off < 1e-12
        assert ours == theirs
        seen[theirs] += 1
    assert len(seen) > 2 or options.get("max_ls", 25) < 2


def test_another_constant_is_seen() -> None:
    found = list(differences(30, c2=0.1, torch_c2=0.5))
    assert max(off for off, _, _ in found) > 0.1
    assert any(theirs != ours for _, theirs, ours in found)


@pytest.mark.parametrize("bounded", [False, True])
def test_the_cubic(bounded: bool) -> None:
    random = np.random.default_rng(1)
    interpolate: Callable[..., Any] = jax.jit(_cubic_interpolate)
    values = random.normal(size=(150, 8))
    values[::7, 1] = np.nan
    values[1::7, 2] = np.inf
    values[2::7, 4] = np.inf
    values[3::7, 6] = np.nan
    for x1, f1, g1, x2, f2, g2, least, width in values:
        bounds = (least, least + abs(width)) if bounded else None
        theirs = lbfgs._cubic_interpolate(
            *(torch.tensor(value, dtype=torch.float64) for value in (x1, f1, g1, x2, f2, g2)), bounds=bounds
        )
        empty = jnp.zeros(3)
        ours = interpolate(
            Point(*map(jnp.asarray, (x1, f1)), empty, jnp.asarray(g1)),
            Point(*map(jnp.asarray, (x2, f2)), empty, jnp.asarray(g2)),
            bounds,
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize("wall", [False, True])
@pytest.mark.parametrize("c2", [0.9, 0.1, 1e-3])
@pytest.mark.parametrize("max_ls", [0, 2, 5, 25])
def test_a_thousand_searches(wall: bool, c2: float, max_ls: int) -> None:
    for off, theirs, ours in differences(1000, wall=wall, c2=c2, max_ls=max_ls):
        assert off < 1e-10
        assert ours == theirs
