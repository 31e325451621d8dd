"""A torch optimizer and a transformation beside each other, fed the same random gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

SHAPES = {"matrix": (3, 5), "vector": (4,), "scalar": (), "kernel": (2, 3, 2, 4)}
Differences = dict[str, float]


@pytest.fixture
def beside_torch() -> Callable[..., Differences]:
    return run_both


def run_both(
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    transformation: optax.GradientTransformation,
    fields: dict[str, str | None],
    *,
    steps: int = 60,
    shapes: dict[str, tuple[int, ...]] = SHAPES,
    rates: Callable[[int], float] | None = None,
    prepare: Callable[[Any], Any] = lambda state: state,
    restart: int | None = None,
    scalars: torch.dtype = torch.float32,
    scale: float = 1.0,
    all_but: float = 0.0,
) -> Differences:
    """The largest relative difference over all steps of each parameter and each tensor of torch's state.

    In float64 under x64, in float32 otherwise.

    Args:
        make: torch's optimizer of the parameters.
        transformation: ours.
        fields: torch's name of each tensor of its state → ours of the same, or None where there is none.
        steps: how many.
        shapes: of the parameters, by name.
        rates: torch's learning rate before each step.
        prepare: changes our state before the first step.
        restart: the step before which our state is made anew, of torch's.
        scalars: torch's default dtype, that of its states' scalars.
        scale: what the gradients are multiplied by.
        all_but: the share of the steps that may differ by more; each then begins with torch's parameters.
    """
    dtype = np.dtype(np.float64 if jax.config.read("jax_enable_x64") else np.float32)
    generator = np.random.default_rng(5)

    def draw(mean: float) -> dict[str, np.ndarray]:
        return {name: np.asarray(generator.normal(mean, 1, shape), dtype) for name, shape in shapes.items()}

    params = draw(0.2)
    theirs = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in params.items()}
    state = prepare(transformation.init(params))

    differences: dict[str, list[float]] = {}
    largest = dict.fromkeys(shapes, 0.0)
    with default_dtype(scalars):
        optimizer = make(list(theirs.values()))
        for number in range(steps):
            if number == restart:
                state = restarted(state, fields, {name: optimizer.state[theirs[name]] for name in theirs})
            gradients = {name: scale * value for name, value in draw(0.1).items()}
            for name, parameter in theirs.items():
                parameter.grad = torch.tensor(gradients[name])
            for group in optimizer.param_groups:
                group["lr"] = rates(number) if rates else group["lr"]
            before = {name: parameter.detach().numpy().copy() for name, parameter in theirs.items()}
            optimizer.step()
            if all_but:
                params = before
            params, state = advance(transformation, params, state, gradients)
            ours = part_of(state, fields)
            for name, parameter in theirs.items():
                pairs = {"parameter": (params[name], parameter)}
                for key, tensor in optimizer.state[parameter].items():
                    field = fields[key]
                    if field is not None:
                        value = getattr(ours, field)
                        pairs[key] = (value[name] if isinstance(value, dict) else value, tensor)
                for key, (got, expected) in pairs.items():
                    value = expected.detach().numpy()
                    if key == "parameter":
                        largest[name] = max(largest[name], float(np.linalg.norm(value)))
                    found = difference(np.asarray(got), value, largest[name] if key == "parameter" else None)
                    differences.setdefault(f"{key} {name}", []).append(found)
    compared = {name.split()[0] for name in differences}
    assert compared == {"parameter", *(key for key, field in fields.items() if field)}, compared
    return {name: sorted(each)[-1 - int(all_but * steps)] for name, each in differences.items()}


@partial(jax.jit, static_argnums=0)
def advance(transformation: optax.GradientTransformation, params: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
    updates, state = transformation.update(gradients, state, params)
    return optax.apply_updates(params, updates), state


def difference(got: np.ndarray, expected: np.ndarray, size: float | None) -> float:
    """Relative to ``size``, which for a parameter is the largest norm that it had: one scalar passes through 0."""
    assert got.shape == expected.shape, (got.shape, expected.shape)
    distance = float(np.linalg.norm(got.astype(np.float64) - expected))
    size = float(np.linalg.norm(expected)) if size is None else size
    if distance == 0:
        return 0.0
    return distance / size if np.isfinite(distance) and size else np.inf


def part_of(state: Any, fields: dict[str, str | None]) -> Any:
    """The one part of a chain's state that has all of ``fields``."""

    def has_fields(part: Any) -> bool:
        return all(hasattr(part, name) for name in fields.values() if name)

    (found,) = [part for part in jax.tree.leaves(state, is_leaf=has_fields) if has_fields(part)]
    return found


def restarted(state: Any, fields: dict[str, str | None], tensors: dict[str, dict[str, torch.Tensor]]) -> Any:
    """Our state with every field of ``fields`` made of torch's tensors, and nothing kept of the old."""

    def array(tensor: torch.Tensor, like: jax.Array) -> jax.Array:
        # A copy: jax would share the memory that torch goes on writing to.
        return jnp.asarray(tensor.numpy().copy(), like.dtype)

    old = part_of(state, fields)
    new = {}
    for key, field in fields.items():
        assert field is not None, "a restart needs all of torch's state"
        value = getattr(old, field)
        if isinstance(value, dict):
            new[field] = {
                name: array(tensors[name][key], like) if key in tensors[name] else like for name, like in value.items()
            }
        else:
            new[field] = array(next(iter(tensors.values()))[key], value)
    wiped = jax.tree.map(lambda leaf: jnp.full_like(leaf, 7), old)
    if hasattr(wiped, "started"):
        new["started"] = jnp.ones((), bool)
    return jax.tree.map(
        lambda part: wiped._replace(**new) if part is old else part, state, is_leaf=lambda part: part is old
    )


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
