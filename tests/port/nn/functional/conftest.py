"""A torch function and its twin, run beside each other in float64: outputs, and the gradients of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

Differences = dict[str, float]


@pytest.fixture
def against_torch(float64: None) -> Callable[..., Differences]:
    return compare


def compare(
    theirs: Callable[..., Any],
    ours: Callable[..., Any],
    *inputs: Any,
    differentiate: tuple[int, ...] | None = None,
    channels: int | None = None,
    **options: Any,
) -> Differences:
    """The largest relative difference of the output, and of the gradient of each floating input.

    Args:
        theirs: torch's function.
        ours: the twin, jitted here.
        inputs: numpy arrays as torch has them.
        differentiate: positions of the inputs to differentiate; by default every floating one.
        channels: torch's channel axis of the differentiated inputs; the twin gets them with that axis last.
        options: keywords of both; arrays among them go to each side as its own.
    """
    if differentiate is None:
        differentiate = tuple(i for i, x in enumerate(inputs) if isinstance(x, np.ndarray) and x.dtype.kind == "f")

    tensors = [torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in inputs]
    for i in differentiate:
        tensors[i].requires_grad_()
    keywords = {k: torch.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    expected = theirs(*tensors, **keywords)
    cotangent = np.random.default_rng(99).normal(0.3, 1, tuple(expected.shape))
    gradients = torch.autograd.grad(expected, [tensors[i] for i in differentiate], torch.from_numpy(cotangent))

    def last(x: np.ndarray) -> np.ndarray:
        return x if channels is None else np.moveaxis(x, channels, -1)

    keywords = {k: jnp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    arguments = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]

    def twin(*differentiated: jax.Array) -> jax.Array:
        given = list(arguments)
        for i, x in zip(differentiate, differentiated, strict=True):
            given[i] = x
        return ours(*given, **keywords)

    # Not optimised: these tests compile far more than they compute.
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def run(*differentiated: jax.Array) -> tuple[jax.Array, Any]:
        output, pull_back = jax.vjp(twin, *differentiated)
        return output, pull_back(jnp.asarray(cotangent))

    got, pulled = run(*(jnp.asarray(last(inputs[i])) for i in differentiate))
    assert got.dtype == jnp.float64
    seen = {"output": difference(got, expected.detach().numpy())}
    for i, ours_, theirs_ in zip(differentiate, pulled, gradients, strict=True):
        seen[f"gradient of input {i}"] = difference(ours_, last(theirs_.numpy()))
    return seen


def difference(got: Any, expected: np.ndarray) -> float:
    """Relative to the largest expected value; infinite where NaNs or infinities are not in the same places."""
    got = np.asarray(got)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return np.inf
    largest = np.abs(expected[finite]).max(initial=0)
    return float(np.abs(got[finite] - expected[finite]).max(initial=0) / (largest or 1))
