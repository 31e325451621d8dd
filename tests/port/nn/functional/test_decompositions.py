"""Decompositions against torch's; signs of singular vectors are free, and taken out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import port.nn.functional as F


@pytest.mark.parametrize("some", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)])
def test_svd_is_torchs(shape: tuple[int, ...], some: bool, float64: None) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=shape) + 1j * random.normal(size=shape)
    expected = [part.resolve_conj() for part in torch.svd(torch.from_numpy(x), some=some)]
    u, s, v = F.svd(jnp.asarray(x), some)
    assert [part.shape for part in (u, s, v)] == [tuple(part.shape) for part in expected]
    np.testing.assert_allclose(s, expected[1], rtol=1e-12)
    k = min(shape[-2:])
    for ours, theirs in ((u, expected[0].numpy()), (v, expected[2].numpy())):
        projected = [part[..., :k] @ part[..., :k].swapaxes(-1, -2).conj() for part in (np.asarray(ours), theirs)]
        np.testing.assert_allclose(*projected, atol=1e-12)
    again = (u[..., :k] * s[..., None, :]) @ v[..., :k].mT.conj()
    np.testing.assert_allclose(again, x, atol=1e-12)
    # V itself, and not its transpose.
    assert np.abs((u[..., :k] * s[..., None, :])[..., :3, :k] @ v[..., :k, :k] - x[..., :3, :k]).max() > 1e-2


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(4, 2), (2, 3, 5), (3, 3)])
@pytest.mark.sweep
def test_the_gradient_of_a_full_svd_is_torchs(shape: tuple[int, ...], is_complex: bool, float64: None) -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=shape) + (1j * random.normal(size=shape) if is_complex else 0)
    k = min(shape[-2:])
    weights = [random.normal(size=(*shape[:-2], *size)) for size in ((shape[-2], k), (k,), (k, shape[-1]))]
    given = torch.from_numpy(x).requires_grad_()
    u, s, vh = torch.linalg.svd(given)
    parts = (u[..., :k].abs() ** 2, s, vh[..., :k, :].abs() ** 2)
    (expected,) = torch.autograd.grad(
        sum((part * torch.from_numpy(w)).sum() for part, w in zip(parts, weights, strict=True)), given
    )

    def loss(x: jax.Array) -> jax.Array:
        u, s, vh = F.full_svd(x)
        parts = (jnp.abs(u[..., :k]) ** 2, s, jnp.abs(vh[..., :k, :]) ** 2)
        return sum(((part * w).sum() for part, w in zip(parts, weights, strict=True)), jnp.zeros(()))

    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(x)).conj(), expected.numpy(), rtol=1e-10, atol=1e-11)


def test_singular_vectors_have_their_own_signs_in_the_gradient(float64: None) -> None:
    x = jnp.asarray(np.random.default_rng(2).normal(size=(5, 3)))
    direction = jnp.asarray(np.random.default_rng(3).normal(size=(5, 3)))
    (u, _, vh), (u_dot, _, vh_dot) = jax.jvp(F.full_svd, (x,), (direction,))
    step = 1e-6
    later, _, vh_later = F.full_svd(x + step * direction)
    np.testing.assert_allclose((later - u)[:, :3] / step, u_dot[:, :3], atol=1e-4)
    np.testing.assert_allclose((vh_later - vh) / step, vh_dot, atol=1e-4)
    assert not u_dot[:, 3:].any()


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"atol": 1.0},
        {"rtol": 0.3},
        {"atol": 0.5, "rtol": 0.1},
        {"atol": np.array([0.0, 2.5])},
        {"hermitian": True},
        {"hermitian": True, "rtol": 0.5},
    ],
)
@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 0, 0)])
def test_matrix_rank_is_torchs(shape: tuple[int, ...], named: dict[str, object], float64: None) -> None:
    x = np.random.default_rng(4).normal(size=shape)
    x[..., :1] = 0
    of_torch = {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in named.items()}
    expected = torch.linalg.matrix_rank(torch.from_numpy(x), **of_torch)
    np.testing.assert_array_equal(F.matrix_rank(jnp.asarray(x), **named), expected)  # type: ignore[arg-type]
