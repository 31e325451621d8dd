"""torch.optim.LBFGS's state carried over in the middle of a run, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.errors import UsageError, WeightsMismatch
from port.transforms import TorchLbfgsState, lbfgs_state_from_torch, lbfgs_state_to_torch, torch_lbfgs

SIZE, HISTORY = 5, 3
SCALES = np.array([1.0, 3.0, 0.5, 8.0, 2.0])
START = np.array([2.0, -1.0, 0.5, 1.5, -3.0])


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def torch_run(steps: int, w: Any = START, entry: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
    """So many steps, from the state if there is one: the parameters, and the state with numpy's arrays."""
    params = torch.tensor(np.asarray(w), requires_grad=True)
    optimizer = torch.optim.LBFGS([params], lr=0.7, max_iter=3, history_size=HISTORY)
    if entry is not None:
        tensors = jax.tree.map(lambda value: torch.tensor(value) if isinstance(value, np.ndarray) else value, entry)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": {0: tensors}})

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (torch.tensor(SCALES) * torch.cosh(params)).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    state = optimizer.state_dict()["state"].get(0, {"func_evals": 0, "n_iter": 0})
    return params.detach().numpy(), jax.tree.map(
        lambda value: value.numpy() if isinstance(value, torch.Tensor) else value, state
    )


@jax.jit
def jax_step(w: jax.Array, state: TorchLbfgsState) -> tuple[jax.Array, TorchLbfgsState]:
    transform = torch_lbfgs(0.7, max_iter=3, history_size=HISTORY)
    value_and_grad_fn = jax.value_and_grad(lambda w: (jnp.asarray(SCALES) * jnp.cosh(w)).sum())
    updates, state = transform.update(None, state, w, value_and_grad_fn=value_and_grad_fn)
    return w + updates, state


def from_torch(entry: dict[str, Any], **options: Any) -> TorchLbfgsState:
    return lbfgs_state_from_torch(entry, **{"size": SIZE, "history_size": HISTORY, "dtype": "float64"} | options)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_torch_begins_and_jax_goes_on(before: int) -> None:
    w, entry = torch_run(before)
    params, state = jnp.asarray(w), from_torch(entry)
    for _ in range(2):
        params, state = jax_step(params, state)
    expected, entry = torch_run(before + 2)
    np.testing.assert_allclose(params, expected, rtol=1e-12)
    assert int(state.n_iter) == entry["n_iter"]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_jax_begins_and_torch_goes_on(before: int) -> None:
    params, state = jnp.asarray(START), from_torch({"func_evals": 0, "n_iter": 0})
    for _ in range(before):
        params, state = jax_step(params, state)
    expected, expected_entry = torch_run(before + 2)
    w, entry = torch_run(2, params, lbfgs_state_to_torch(state))
    np.testing.assert_allclose(w, expected, rtol=1e-12)
    assert entry["func_evals"] == expected_entry["func_evals"]


def test_there_and_back_again() -> None:
    _, entry = torch_run(2)
    back = lbfgs_state_to_torch(from_torch(entry))
    entry.pop("al")
    assert entry.keys() == back.keys()
    jax.tree.map(np.testing.assert_array_equal, back, entry)


def test_a_state_without_its_memory_is_seen() -> None:
    w, entry = torch_run(3)
    forgetful = from_torch(entry)._replace(history_count=jnp.asarray(0, jnp.int32))
    params, _ = jax_step(jnp.asarray(w), forgetful)
    assert np.abs(params - torch_run(4)[0]).max() > 1e-3


def test_a_longer_memory_goes_on_with_what_there_is() -> None:
    _, entry = torch_run(3)
    longer = from_torch(entry, history_size=7)
    assert longer.old_dirs.shape == (7, SIZE)
    assert int(longer.history_count) == len(entry["old_dirs"]) == 3


def test_what_does_not_fit_is_said() -> None:
    _, entry = torch_run(2)
    with pytest.raises(UsageError, match="remembers 3 steps; with history_size=2"):
        from_torch(entry, history_size=2)
    with pytest.raises(WeightsMismatch, match=r"d should hold vectors of 4 numbers.*\(5,\)"):
        from_torch(entry, size=4)
