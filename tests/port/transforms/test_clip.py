"""torch.nn.utils.clip_grad_norm_ and clip_grad_value_ (O13)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UsageError
from port.transforms import clip_by_torch_norm, torch_norm

INF = math.inf
ORDERS = [2.0, 1.0, 0.5, 3.0, 0.0, -1.0, -2.5, INF, -INF]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def gradients(scale: float = 1.0, zeros: bool = False) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"kernel": (2, 3, 3, 4), "matrix": (3, 5), "vector": (7,), "scalar": ()}
    values = {name: scale * random.normal(size=shape) for name, shape in shapes.items()}
    if zeros:
        values["vector"] = np.zeros(7)
        values["matrix"][1] = 0
    return values


def in_torch(values: dict[str, np.ndarray], dtypes: dict[str, torch.dtype] | None = None) -> list[torch.nn.Parameter]:
    params = []
    for name, value in sorted(values.items()):  # jax sorts a dict's keys
        gradient = torch.tensor(value, dtype=(dtypes or {}).get(name, torch.float64))
        params.append(torch.nn.Parameter(torch.zeros_like(gradient)))
        params[-1].grad = gradient
    return params


def clipped(values: Any, max_norm: Any, norm_type: Any = 2.0) -> Any:
    return jax.jit(lambda values, max_norm: clip_by_torch_norm(max_norm, norm_type).update(values, optax.EmptyState()))(
        values, max_norm
    )[0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("zeros", [False, True])
def test_the_norm_of_the_norms(order: float, zeros: bool) -> None:
    values = gradients(zeros=zeros)
    expected = torch.nn.utils.get_total_norm([param.grad for param in in_torch(values)], order)  # type: ignore[misc]
    np.testing.assert_allclose(torch_norm(values, order), expected, rtol=1e-13)
    if order == 0 and zeros:
        assert expected == 3  # of four arrays one is zero


@pytest.mark.parametrize("order", [*ORDERS, "inf"])
def test_the_gradients_clipped(order: Any) -> None:
    values = gradients()
    norm = float(torch_norm(values, order))
    clip = jax.jit(lambda values, most: clip_by_torch_norm(most, order).update(values, optax.EmptyState())[0])
    for share in (0.3, 1.0, 1 + 1e-12, 2.0):
        params = in_torch(values)
        torch.nn.utils.clip_grad_norm_(params, share * norm, order, foreach=False)
        for param, ours in zip(params, clip(values, share * norm).values(), strict=True):
            np.testing.assert_allclose(ours, param.grad, rtol=1e-13)  # type: ignore[arg-type]


def test_without_the_small_number_in_the_divisor_it_is_not_torch() -> None:
    """Planted: optax's own, which has none."""
    for scale, off in ((1.0, 1e-8), (1e-4, 1e-4)):
        values = gradients(scale)
        half = 0.5 * float(torch_norm(values))
        params = in_torch(values)
        torch.nn.utils.clip_grad_norm_(params, half)
        theirs = params[0].grad  # kernel
        assert theirs is not None
        optaxs, _ = optax.clip_by_global_norm(half).update(values, optax.EmptyState())
        assert np.abs(optaxs["kernel"] / theirs.numpy() - 1).max() > off
        np.testing.assert_allclose(clipped(values, half)["kernel"], theirs, rtol=1e-13)


@pytest.mark.parametrize(
    "dtypes",
    [["float16"] * 4, ["bfloat16"] * 4, ["float32"] * 4, ["float16", "float32", "bfloat16", "float64"]],
    ids=" ".join,
)
@pytest.mark.thin(3)
def test_dtypes(dtypes: list[str], optimized: None) -> None:
    """All of one dtype: the norm is rounded to it. Of several: it is in the widest."""
    values = gradients()
    params = in_torch(values, {name: getattr(torch, dtype) for name, dtype in zip(sorted(values), dtypes, strict=True)})
    tree = {name: jnp.asarray(values[name], dtype) for name, dtype in zip(sorted(values), dtypes, strict=True)}
    expected = torch.nn.utils.get_total_norm([param.grad for param in params])  # type: ignore[misc]
    assert torch_norm(tree).dtype == str(expected.dtype).removeprefix("torch.")
    torch.nn.utils.clip_grad_norm_(params, 0.7)
    for param, ours, dtype in zip(params, clipped(tree, 0.7).values(), dtypes, strict=True):
        assert ours.dtype == dtype
        assert param.grad is not None
        # Two roundings to the dtype; in float32 and above the order of the sum is another one, too.
        rtol = (2 if dtype.endswith("16") else 4) * float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(np.asarray(ours, "float64"), param.grad.double(), rtol=rtol)


@pytest.mark.parametrize("order", [2.0, 1.0, INF, 0.0, -1.0])
@pytest.mark.parametrize("bad", [np.nan, INF])
def test_what_is_not_finite(order: float, bad: float) -> None:
    values = gradients()
    values["matrix"][0, 0] = bad
    params = in_torch(values)
    torch.nn.utils.clip_grad_norm_(params, 0.5, order)
    for param, ours in zip(params, clipped(values, 0.5, order).values(), strict=True):
        np.testing.assert_allclose(ours, param.grad, rtol=1e-13)  # type: ignore[arg-type]


def test_masked_and_empty_trees() -> None:
    masked = {"frozen": optax.MaskedNode(), "free": jnp.array([3.0, 4.0]), "empty": jnp.zeros((0, 3))}
    ours = clipped(masked, 1.0)
    assert ours["frozen"] == optax.MaskedNode()
    np.testing.assert_allclose(ours["free"], np.array([3, 4]) / (5 + 1e-6), rtol=1e-13)
    assert float(torch_norm({})) == 0 == float(torch.nn.utils.get_total_norm([]))
    assert clipped({}, 1.0) == {}


@pytest.mark.parametrize("order", [INF, -INF, -1.0])
def test_a_norm_that_torch_refuses(order: float) -> None:
    with pytest.raises(RuntimeError, match="does not have an identity"):
        torch.nn.utils.get_total_norm([torch.zeros(0, 3), torch.ones(2)], order)
    with pytest.raises(UsageError, match=r"\['empty'\] has shape \(0, 3\)"):
        torch_norm({"full": jnp.ones(2), "empty": jnp.zeros((0, 3))}, order)


@pytest.mark.parametrize("limit", [0.5, 0.0, -0.5])
def test_clip_grad_value_is_optax_clip(limit: float) -> None:
    values = gradients()
    values["vector"][:3] = np.nan, INF, -INF
    params = in_torch(values)
    torch.nn.utils.clip_grad_value_(params, limit)
    ours, _ = optax.clip(limit).update(dict(sorted(values.items())), optax.EmptyState())
    for param, value in zip(params, ours.values(), strict=True):
        np.testing.assert_array_equal(value, param.grad)  # type: ignore[arg-type]
