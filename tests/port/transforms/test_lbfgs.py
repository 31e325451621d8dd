"""torch.optim.LBFGS and port.transforms.torch_lbfgs, one step(closure) after another."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.flatten_util import ravel_pytree

from port.errors import UnknownChoice, UsageError
from port.transforms import TorchLbfgsState, torch_lbfgs

SHAPES = {"a": (3, 2), "b": (), "c": (2,)}
SIZE = 9
random = np.random.default_rng(0)
FEATURES = random.normal(size=(20, SIZE))
LABELS = random.random(20) < 0.4
SCALES = np.logspace(0, 1.5, SIZE)
ROTATION = np.linalg.qr(random.normal(size=(SIZE, SIZE)))[0]
START = {name: random.normal(size=shape) for name, shape in SHAPES.items()}

# Shares of an ill-scaled quadratic function, a logistic regression, and Rosenbrock's function.
QUADRATIC, LOGISTIC, ROSENBROCK = np.eye(3)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def loss_of(shares: Any, xp: Any, softplus: Callable[[Any], Any], array: Callable[[Any], Any], w: Any) -> Any:
    """The same text for both sides; ``w`` are all parameters, flat."""
    bowl = 0.5 * (array(SCALES) * (array(ROTATION) @ w - 1) ** 2).sum()
    scores = array(FEATURES) @ w
    logistic = (softplus(scores) - array(LABELS.astype("float64")) * scores).mean() + 0.01 * (w * w).sum()
    valley = (10 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()
    return shares[0] * bowl + shares[1] * logistic + shares[2] * valley


class Torch:
    """The optimizer of torch on one of the functions."""

    def __init__(self, shares: np.ndarray, dtype: torch.dtype = torch.float64, **options: Any) -> None:
        self.params = [torch.tensor(value, dtype=dtype, requires_grad=True) for value in START.values()]
        self.optimizer = torch.optim.LBFGS(self.params, **options)
        self.shares = shares
        self.dtype = dtype

    def closure(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        flat = torch.cat([param.reshape(-1) for param in self.params])
        softplus = functools.partial(torch.nn.functional.softplus, threshold=50)
        loss = loss_of(self.shares, torch, softplus, lambda values: torch.tensor(values, dtype=self.dtype), flat)
        if self.optimizer.param_groups[0]["maximize"]:
            loss = -loss
        loss.backward()
        return loss

    def step(self) -> None:
        self.optimizer.step(self.closure)

    @property
    def flat(self) -> np.ndarray:
        return torch.cat([param.detach().reshape(-1) for param in self.params]).numpy()

    @property
    def state(self) -> dict[str, Any]:
        return self.optimizer.state_dict()["state"][0]


@functools.partial(jax.jit, static_argnames=("history_size", "line_search_fn", "maximize"))
def jax_step(params: Any, state: Any, shares: Any, lr: Any, **options: Any) -> tuple[Any, TorchLbfgsState, jax.Array]:
    """One update, and the gradient's largest number before it; all options but three are traced."""
    transform, maximize = torch_lbfgs(lr, **options), options["maximize"]

    def loss(params: Any) -> jax.Array:
        flat = ravel_pytree(params)[0]
        value = loss_of(shares, jnp, jax.nn.softplus, lambda values: jnp.asarray(values, flat.dtype), flat)
        return -value if maximize else value

    value_and_grad_fn = jax.value_and_grad(loss)
    updates, state = transform.update(None, state, params, value_and_grad_fn=value_and_grad_fn)
    return optax.apply_updates(params, updates), state, jnp.abs(ravel_pytree(value_and_grad_fn(params)[1])[0]).max()


class Jax:
    """The same for ours; options that are not given are torch's."""

    def __init__(self, shares: np.ndarray, dtype: str = "float64", **options: Any) -> None:
        defaults = torch.optim.LBFGS([torch.zeros(1)], **options).defaults
        self.options = defaults | options
        self.params = {name: jnp.asarray(value, dtype) for name, value in START.items()}
        self.shares = jnp.asarray(shares, dtype)
        self.state = torch_lbfgs(history_size=defaults["history_size"]).init(self.params)

    def step(self) -> float:
        self.params, self.state, largest = jax_step(self.params, self.state, self.shares, **self.options)
        return float(largest)

    @property
    def flat(self) -> np.ndarray:
        return np.asarray(ravel_pytree(self.params)[0])


def distance(ours: Any, theirs: Any) -> float:
    return float(np.linalg.norm(np.asarray(ours) - theirs) / max(1e-12, np.linalg.norm(theirs)))


def assert_same_state(ours: TorchLbfgsState, theirs: dict[str, Any], tolerance: float) -> None:
    assert int(ours.func_evals) == theirs["func_evals"]
    assert int(ours.n_iter) == theirs["n_iter"]
    count = len(theirs["old_dirs"])
    assert int(ours.history_count) == count
    for name in ("d", "t", "H_diag", "prev_flat_grad", "prev_loss"):
        assert distance(getattr(ours, name), np.asarray(theirs[name])) < tolerance, name
    for name in ("old_dirs", "old_stps", "ro"):
        for mine, his in zip(getattr(ours, name)[:count], theirs[name], strict=True):
            assert distance(mine, his.numpy()) < tolerance, name
        assert not np.asarray(getattr(ours, name)[count:]).any()


def trajectories(shares: np.ndarray, steps: int = 15, **options: Any) -> tuple[Jax, Torch, int]:
    """Both, compared after each step until the gradient is below 1e-6; and how many steps that took.

    A line search decides by c1 = 1e-4 of a squared gradient. Where the loss at its minimum is 1 and not 0, this is
    the loss's last bit, 2e-16, from a gradient of 1e-6 on: there it is followed down to 1e-5.
    """
    until = 1e-5 if options.get("line_search_fn") and shares[1] else 1e-6
    ours, theirs = Jax(shares, **options), Torch(shares, **options)
    for done in range(steps):
        ours.step(), theirs.step()
        if jnp.abs(ours.state.prev_flat_grad).max() < until:
            return ours, theirs, done
        assert distance(ours.flat, theirs.flat) < 1e-10
        assert int(ours.state.func_evals) == theirs.state["func_evals"]
        # Changes and steps shrink, and the line search divides losses that differ in their last digits.
        assert_same_state(ours.state, theirs.state, 1e-5)
    return ours, theirs, steps


# With torch's 1e-9 it stops, for ever, where the slope, minus a squared gradient, is above −1e-9.
FIXED = {"history_size": 6, "tolerance_change": 1e-15}
SEARCH = FIXED | {"line_search_fn": "strong_wolfe"}


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param(QUADRATIC, id="quadratic", marks=pytest.mark.sweep),
        pytest.param(LOGISTIC, id="logistic", marks=pytest.mark.sweep),
        pytest.param(QUADRATIC + LOGISTIC, id="both"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {"max_iter": 4} | FIXED,
        {"max_iter": 7, "lr": 0.5, "max_eval": 3} | FIXED,
        {"max_iter": 1} | FIXED,
        {"max_iter": 4} | SEARCH,
        {"lr": 0.5, "max_eval": 9} | SEARCH,
    ],
    ids=str,
)
@pytest.mark.thin(3)
def test_step_by_step_down_to_the_minimum(shares: np.ndarray, options: dict[str, Any]) -> None:
    ours, _, steps = trajectories(shares, 60, **options)
    assert 1 < steps < 60
    assert int(ours.state.n_iter) > 8


@pytest.mark.parametrize("options", [{"max_iter": 5}, {"max_iter": 20, "max_eval": 6}], ids=str)
def test_rosenbrock_with_the_line_search(options: dict[str, Any]) -> None:
    ours, _, steps = trajectories(ROSENBROCK, 40, **options, **SEARCH)
    assert 4 < steps < 40
    np.testing.assert_allclose(ours.flat, 1, rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance_grad": 0.5},
        {"tolerance_change": 1e-2},
        {"tolerance_change": 1e-9},
        {"tolerance_change": 1e9},  # no slope is steep enough: nothing moves
        {"tolerance_grad": 1e9},  # torch writes no state but func_evals
    ],
    ids=str,
)
@pytest.mark.parametrize("search", [FIXED, SEARCH], ids=["fixed", "search"])
def test_it_stops_where_torch_stops(options: dict[str, Any], search: dict[str, Any]) -> None:
    ours, theirs = Jax(LOGISTIC, **search | options), Torch(LOGISTIC, **search | options)
    for _ in range(5):
        ours.step(), theirs.step()
        assert int(ours.state.func_evals) == theirs.state["func_evals"]
        assert int(ours.state.n_iter) == theirs.state["n_iter"]
        assert distance(ours.flat, theirs.flat) < 1e-12
    assert theirs.state["n_iter"] < 60


def test_maximize() -> None:
    _, _, steps = trajectories(LOGISTIC, 3, maximize=True, max_iter=4, **FIXED)
    assert steps == 3


@pytest.mark.sweep
def test_float32() -> None:
    ours, theirs = Jax(LOGISTIC, "float32", max_iter=2, **FIXED), Torch(LOGISTIC, torch.float32, max_iter=2, **FIXED)
    for _ in range(4):
        ours.step(), theirs.step()
        assert distance(ours.flat, theirs.flat) < 1e-5
    assert ours.flat.dtype == ours.state.old_dirs.dtype == ours.state.t.dtype == "float32"


@pytest.mark.sweep
def test_params_of_several_dtypes_keep_them() -> None:
    dtypes = {"a": "float16", "b": "float32", "c": "bfloat16"}
    ours = Jax(LOGISTIC, "float32", max_iter=5, **FIXED)
    ours.params = {name: value.astype(dtypes[name]) for name, value in ours.params.items()}
    before = ours.step()
    for _ in range(2):
        after = ours.step()
    assert after < before / 2
    assert {name: str(value.dtype) for name, value in ours.params.items()} == dtypes
    assert ours.state.d.dtype == "float32"


def first_step(**options: Any) -> float:
    theirs, ours = Torch(QUADRATIC, max_iter=4, **FIXED), Jax(QUADRATIC, max_iter=4, **FIXED)
    ours.options |= options
    theirs.step(), ours.step()
    return distance(ours.flat, theirs.flat)


def test_a_wrong_option_is_seen() -> None:
    assert first_step() < 1e-12
    assert first_step(lr=1 + 1e-6) > 1e-8
    assert first_step(max_iter=3) > 1e-4


def test_optax_takes_another_way() -> None:
    ours, theirs = Jax(QUADRATIC), Torch(QUADRATIC, max_iter=1)
    theirs.step()
    params, optimizer = jnp.asarray(ours.flat), optax.lbfgs(1.0, linesearch=None)

    @jax.jit
    def step(params: jax.Array) -> jax.Array:
        value_and_grad = jax.value_and_grad(lambda w: loss_of(QUADRATIC, jnp, jax.nn.softplus, jnp.asarray, w))
        value, gradient = value_and_grad(params)
        updates, _ = optimizer.update(gradient, optimizer.init(params), params, value=value, grad=gradient)
        return params + updates

    assert distance(step(params), theirs.flat) > 0.1


def test_a_tree_without_parameters() -> None:
    transform = torch_lbfgs()
    params = {"frozen": optax.MaskedNode()}
    updates, state = transform.update(
        params, transform.init(params), params, value_and_grad_fn=lambda params: (jnp.zeros([]), params)
    )
    assert updates == params
    assert int(state.func_evals) == 0


@pytest.mark.sweep
def test_masked_parameters_stay_masked() -> None:
    transform = torch_lbfgs(max_iter=3)
    params = {"frozen": optax.MaskedNode(), "free": jnp.array([3.0, -2.0])}
    value_and_grad_fn = jax.value_and_grad(lambda params: (params["free"] ** 2).sum())
    updates, _ = transform.update(params, transform.init(params), params, value_and_grad_fn=value_and_grad_fn)
    assert updates["frozen"] == optax.MaskedNode()
    np.testing.assert_allclose(updates["free"], [-3, 2], atol=1e-9)


@pytest.mark.sweep
def test_what_cannot_be_is_said() -> None:
    with pytest.raises(UnknownChoice, match="strong_wolfe"):
        torch_lbfgs(line_search_fn="armijo")
    with pytest.raises(UsageError, match="history_size must be at least 1"):
        torch_lbfgs(history_size=0)
    transform, params = torch_lbfgs(), {"w": jnp.ones(3)}
    with pytest.raises(UsageError, match=r"value_and_grad_fn=jax\.value_and_grad"):
        transform.update(params, transform.init(params), params)


@pytest.mark.sweep
@pytest.mark.parametrize("shares", [QUADRATIC, LOGISTIC, QUADRATIC + LOGISTIC])
@pytest.mark.parametrize("history_size", [1, 3, 100])
@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
def test_all_options(shares: np.ndarray, history_size: int, line_search_fn: str | None) -> None:
    """Two steps, up to 40 iterations: with a memory of 1, torch, begun one last bit apart, is 5e-11 off in three."""
    for lr in (0.3, 1.0):
        for max_iter in (1, 5, 20):
            options = {"lr": lr, "max_iter": max_iter, "line_search_fn": line_search_fn}
            trajectories(shares, 2, history_size=history_size, **options)
