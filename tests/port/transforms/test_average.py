"""torch.optim.swa_utils.AveragedModel beside swa_average and ema_average."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch.optim import swa_utils

from port.errors import UsageError
from port.transforms import TorchAverage, ema_average, swa_average

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run

EPSILON = {"float64": 2.3e-16, "float32": 1.2e-7, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Layer(torch.nn.Module):
    """Parameters that wander, and buffers: one that wanders, one that counts."""

    running: torch.Tensor
    count: torch.Tensor

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.matrix = torch.nn.Parameter(torch.randn(3, 5, dtype=dtype))
        self.kernel = torch.nn.Parameter(torch.randn(2, 3, 3, 4, dtype=dtype))
        self.scalar = torch.nn.Parameter(torch.randn([], dtype=dtype))
        self.register_buffer("running", torch.randn(4, dtype=dtype))
        self.register_buffer("count", torch.tensor([9, -9, 123456]))

    @torch.no_grad()
    def wander(self) -> None:
        for tensor in (*self.parameters(), self.running):
            tensor.add_(torch.randn_like(tensor), alpha=0.1)
        self.count += torch.tensor([1, -1, 1001])

    def tree(self) -> dict[str, jax.Array]:
        """The state dict; numpy has no bfloat16."""
        return {
            name: jnp.asarray(
                (value.double() if value.is_floating_point() else value).numpy(),
                str(value.dtype).removeprefix("torch."),
            )
            for name, value in self.state_dict().items()
        }


def torch_swa(model: torch.nn.Module, **options: Any) -> swa_utils.AveragedModel:
    return swa_utils.AveragedModel(model, **options)


def torch_ema(decay: float) -> Callable[..., swa_utils.AveragedModel]:
    return lambda model, **options: swa_utils.AveragedModel(
        model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(decay), **options
    )


def largest_difference(
    ours: TorchAverage, theirs: Callable[..., swa_utils.AveragedModel], dtype: str = "float64", steps: int = 60
) -> float:
    """Of all leaves, after each update, buffers included; relative."""
    layer = Layer(getattr(torch, dtype))
    averaged = theirs(layer, use_buffers=True)
    state, update, off = ours.init(layer.tree()), jax.jit(ours.update), 0.0
    for _ in range(steps):
        layer.wander()
        averaged.update_parameters(layer)
        state = update(layer.tree(), state)
        assert int(state.n_averaged) == averaged.n_averaged
        for name, value in averaged.module.state_dict().items():
            mine = state.average[name]
            assert mine.dtype == str(value.dtype).removeprefix("torch.")
            his = value.double().numpy()
            off = max(off, float(np.linalg.norm(np.asarray(mine, "float64") - his) / np.linalg.norm(his)))
    return off


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_equal_average(dtype: str, optimized: None) -> None:
    assert largest_difference(swa_average(), torch_swa, dtype) < 4 * EPSILON[dtype]


@pytest.mark.parametrize(
    ("decay", "dtype"),
    [(0.9, "float64"), (0.3, "float64"), (0.0, "float64"), (1.0, "float64"), (0.999, "float32"), (0.9, "bfloat16")],
)
def test_the_moving_average(decay: float, dtype: str, optimized: None) -> None:
    assert largest_difference(ema_average(decay), torch_ema(decay), dtype) < 8 * EPSILON[dtype]


def test_a_traced_decay() -> None:
    values, state = {"w": jnp.array([1.0, -2.0])}, ema_average().init({"w": jnp.array([3.0, 5.0])})
    state = state._replace(n_averaged=jnp.asarray(1, jnp.int32))
    for decay in (0.2, 0.7):
        traced = jax.jit(lambda values, state, decay: ema_average(decay).update(values, state))(values, state, decay)
        np.testing.assert_allclose(
            traced.average["w"], ema_average(decay).update(values, state).average["w"], rtol=1e-14
        )


def test_whole_numbers_are_cut_as_torch_cuts_them(optimized: None) -> None:
    """Products and sum are rounded apart: fused, 201 of these 6000 come out otherwise at 0.9."""
    numbers = np.arange(-3000, 3000)
    for decay in (0.9, 0.99, 0.7):
        expected, new = torch.tensor(numbers), torch.tensor(numbers[::-1].copy() % 50 + numbers)
        swa_utils.get_ema_multi_avg_fn(decay)([expected], [new], 1)
        state = ema_average(decay).init({"n": numbers})._replace(n_averaged=jnp.asarray(1, jnp.int32))
        state = jax.jit(ema_average(decay).update)({"n": jnp.asarray(new.numpy())}, state)
        np.testing.assert_array_equal(state.average["n"], expected)


def test_the_first_update_copies() -> None:
    average = swa_average()
    state = average.update({"w": jnp.array([2.0])}, average.init({"w": jnp.array([7.0])}))
    assert float(state.average["w"][0]) == 2
    state = average.update({"w": jnp.array([4.0])}, state)
    assert float(state.average["w"][0]) == 3


def test_wrong_averages_are_seen() -> None:
    assert largest_difference(ema_average(0.9), torch_ema(0.9 + 1e-9)) > 1e-10
    assert largest_difference(swa_average(), torch_ema(0.9)) > 1e-2

    def late(params: Any, state: Any) -> Any:
        return (
            swa_average()
            .update(params, state._replace(n_averaged=state.n_averaged + 1))
            ._replace(n_averaged=state.n_averaged + 1)
        )

    assert largest_difference(TorchAverage(swa_average().init, late), torch_swa) > 1e-2


def test_torch_on_cuda_rounds_the_share() -> None:
    """get_swa_multi_avg_fn, CUDA's default, computes 1 / (n + 1) in float32, and knows no integers."""
    layer = Layer()
    one = swa_utils.AveragedModel(layer)
    other = swa_utils.AveragedModel(layer, multi_avg_fn=swa_utils.get_swa_multi_avg_fn())
    for _ in range(3):
        layer.wander()
        one.update_parameters(layer), other.update_parameters(layer)
    off = (one.module.matrix - other.module.matrix).abs().max()
    assert 1e-10 < off < 1e-7
    with pytest.raises(RuntimeError, match="Integer division with addcdiv"):
        swa_utils.get_swa_multi_avg_fn()([torch.tensor([1])], [torch.tensor([2])], torch.tensor(1))


def test_optax_averages_otherwise() -> None:
    random = np.random.default_rng(0)
    params = random.normal(size=(3, 5))
    ours, optaxs = ema_average(0.99), optax.ema(0.99)
    state, optax_state = ours.init(params), optaxs.init(params)
    for _ in range(60):
        params = params + 0.1 * random.normal(size=(3, 5))
        state = ours.update(jnp.asarray(params), state)
        optax_average, optax_state = optaxs.update(params, optax_state)
    assert np.linalg.norm(optax_average - state.average) / np.linalg.norm(state.average) > 0.1


def test_masked_leaves_and_an_empty_tree() -> None:
    average = swa_average()
    params = {"frozen": optax.MaskedNode(), "free": jnp.ones(2)}
    state = average.update(params, average.init(params))
    assert state.average["frozen"] == optax.MaskedNode()
    assert average.update({}, average.init({})).average == {}


def test_a_decay_beyond_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"between 0 and 1; it is 1\.5"):
        ema_average(1.5)
