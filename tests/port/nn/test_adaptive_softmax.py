"""port.nn.AdaptiveLogSoftmaxWithLoss against torch's: outputs, loss, all log-probabilities, and what it predicts."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import AdaptiveLogSoftmaxWithLoss

# The short run has these through their pairs: torch's own samples, one an entry.
pytestmark = pytest.mark.sweep

TOLERANCE = 1e-12
# Not optimised: these tests compile far more than they compute.
jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
call, log_prob, predict = (
    nnx.jit(method)
    for method in (
        AdaptiveLogSoftmaxWithLoss.__call__,
        AdaptiveLogSoftmaxWithLoss.log_prob,
        AdaptiveLogSoftmaxWithLoss.predict,
    )
)
FEATURES, CLASSES, CUTOFFS = 12, 20, [3, 8, 15]

generator = np.random.default_rng(0)
INPUT = generator.normal(0.3, 1.2, (9, FEATURES))
TARGET = np.array([0, 2, 3, 7, 8, 14, 15, 19, 5])


def carried(theirs: torch.nn.Module, **faults: Any) -> AdaptiveLogSoftmaxWithLoss:
    """The twin, with torch's parameters."""
    options = {"div_value": theirs.div_value, "head_bias": theirs.head_bias} | faults
    # The shapes alone: drawing values that are replaced at once takes longer than the tests.
    ours = nnx.eval_shape(
        lambda: AdaptiveLogSoftmaxWithLoss(
            FEATURES, CLASSES, CUTOFFS, param_dtype=jnp.float64, rngs=nnx.Rngs(0), **options
        )
    )
    for linear, name in linears(ours):
        linear.kernel.set_value(jnp.asarray(theirs.get_submodule(name).weight.detach().numpy().T))
        if linear.bias is not None:
            linear.bias.set_value(jnp.asarray(theirs.get_submodule(name).bias.detach().numpy()))
    return ours


def linears(ours: AdaptiveLogSoftmaxWithLoss) -> list[tuple[nnx.Linear, str]]:
    tail = [(cluster.layers[j], f"tail.{i}.{j}") for i, cluster in enumerate(ours.tail) for j in range(2)]
    return [(ours.head, "head"), *tail]


def torchs(head_bias: bool = True) -> torch.nn.AdaptiveLogSoftmaxWithLoss:
    torch.manual_seed(0)
    return torch.nn.AdaptiveLogSoftmaxWithLoss(
        FEATURES, CLASSES, CUTOFFS, div_value=2.0, head_bias=head_bias, dtype=torch.float64
    )


def run_torch(theirs: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    given = torch.from_numpy(x).requires_grad_()
    output, loss = theirs(given, torch.from_numpy(y))
    # Both results have a part in the gradient.
    (loss + (output * torch.as_tensor(np.cos(y))).sum()).backward()
    seen = {"output": output.detach().numpy(), "loss": loss.detach().numpy(), "x": given.grad.numpy()}
    return seen | {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}


def run_port(ours: AdaptiveLogSoftmaxWithLoss, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    structure, parameters = nnx.split(ours)

    def total(parameters: nnx.State, x: jax.Array) -> tuple[jax.Array, Any]:
        output, loss = nnx.merge(structure, parameters, copy=True)(x, jnp.asarray(y))
        return loss + (output * np.cos(y)).sum(), (output, loss)

    (_, (output, loss)), (of_parameters, of_x) = jit(jax.value_and_grad(total, (0, 1), has_aux=True))(
        parameters, jnp.asarray(x)
    )
    seen = {"output": output, "loss": loss, "x": of_x}
    for linear, name in linears(nnx.merge(structure, of_parameters, copy=True)):
        seen[f"{name}.weight"] = linear.kernel[...].T
        if linear.bias is not None:
            seen[f"{name}.bias"] = linear.bias[...]
    return {name: np.asarray(value) for name, value in seen.items()}


def largest(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    assert {name: value.shape for name, value in a.items()} == {name: value.shape for name, value in b.items()}
    return max(np.abs(a[name] - b[name]).max() / max(np.abs(b[name]).max(), 1e-2) for name in a)


@pytest.mark.parametrize("head_bias", [False, True])
def test_against_torch(float64: None, head_bias: bool) -> None:
    theirs = torchs(head_bias)
    # All clusters; two of them alone; one sequence.
    for x, y in ((INPUT, TARGET), (INPUT[:3], np.array([9, 1, 8])), (INPUT[0], np.array(16))):
        theirs.zero_grad(set_to_none=False)
        expected = run_torch(theirs, x, y)
        assert largest(run_port(carried(theirs), x, y), expected | zeros(theirs, expected)) < TOLERANCE


def zeros(theirs: torch.nn.Module, seen: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """torch gives no gradient to a cluster without a target."""
    return {n: np.zeros(tuple(p.shape)) for n, p in theirs.named_parameters() if n not in seen}


def test_a_fault_is_seen(float64: None) -> None:
    theirs = torchs()
    ours = carried(theirs)
    ours.tail[0].layers[0].kernel[...] *= 1.01
    assert largest(run_port(ours, INPUT, TARGET), run_torch(theirs, INPUT, TARGET)) > 1e-3
    ours = carried(theirs)
    ours.cutoffs = (3, 7, 15, 20)
    assert largest(run_port(ours, INPUT, TARGET), run_torch(theirs, INPUT, TARGET)) > 1e-3


def test_log_prob_and_predict(float64: None) -> None:
    theirs = torchs()
    with torch.no_grad():
        theirs.head.bias[3:] += torch.tensor([0.2, 0.5, 1.0])  # so that every kind of row is there
    ours = carried(theirs)
    x = torch.from_numpy(generator.normal(0.3, 2, (40, FEATURES)))
    np.testing.assert_allclose(log_prob(ours, jnp.asarray(x)), theirs.log_prob(x).detach(), atol=TOLERANCE)
    predicted = theirs.predict(x).numpy()
    np.testing.assert_array_equal(predict(ours, jnp.asarray(x)), predicted)
    assert (predicted < 3).any() and (predicted >= 3).any()
    for rows in (predicted < 3, predicted >= 3):
        np.testing.assert_array_equal(predict(ours, jnp.asarray(x)[rows]), predicted[rows])


def test_no_class() -> None:
    ours = AdaptiveLogSoftmaxWithLoss(FEATURES, CLASSES, CUTOFFS, rngs=nnx.Rngs(0))
    output, loss = call(ours, jnp.asarray(INPUT[:3]), jnp.array([20, 3, -1]))
    np.testing.assert_array_equal(jnp.isnan(output), [True, False, True])
    assert jnp.isnan(loss)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_dtype(dtype: Any) -> None:
    ours = AdaptiveLogSoftmaxWithLoss(FEATURES, CLASSES, CUTOFFS, head_bias=True, dtype=dtype, rngs=nnx.Rngs(0))
    output, loss = call(ours, jnp.asarray(INPUT), jnp.asarray(TARGET))
    assert output.dtype == loss.dtype == log_prob(ours, jnp.asarray(INPUT)).dtype == dtype


def test_errors() -> None:
    for cutoffs in ([], [3, 3], [8, 3], [0, 3], [3, 20]):
        with pytest.raises(UsageError, match=r"cutoffs must rise, between 1 and n_classes − 1 = 19; got \["):
            AdaptiveLogSoftmaxWithLoss(FEATURES, CLASSES, cutoffs, rngs=nnx.Rngs(0))
    ours = AdaptiveLogSoftmaxWithLoss(FEATURES, CLASSES, CUTOFFS, rngs=nnx.Rngs(0))
    for x, y in ((jnp.ones((2, 12)), jnp.zeros(3, int)), (jnp.ones((2, 11)), jnp.zeros(2, int)),
                 (jnp.ones((2, 3, 12)), jnp.zeros((2, 3), int))):  # fmt: skip
        with pytest.raises(UsageError, match=r"targets \(N,\) need inputs \(N, 12\)"):
            ours(x, y)
