"""What is found in an optax state, and under which label."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from port.optim.parts import parts_of
from port.transforms import accumulate_torch, labels_by_path, reduce_on_torch_plateau, torch_lbfgs

PARAMS: dict[str, Any] = {"a": {"kernel": jnp.ones((2, 3))}, "b": {"bias": jnp.ones(5)}}
PATHS = ("a.kernel", "b.bias")
SCHEDULE = optax.linear_schedule(0.1, 0.0, 10)


def stepped(transformation: Any, params: Any, times: int, **extra: Any) -> Any:
    transformation, state = optax.with_extra_args_support(transformation), transformation.init(params)
    for _ in range(times):
        _, state = transformation.update(params, state, params, **extra)
    return state


def test_a_state_without_partitions_is_one_part() -> None:
    chain = optax.chain(optax.clip(1.0), optax.adam(SCHEDULE))
    (part,) = parts_of(stepped(chain, PARAMS, 3), PATHS)
    (kept,) = part.kept
    assert (part.label, part.paths, part.place, part.rates) == (None, set(PATHS), 3, {})
    assert (kept.name, set(kept.of("a.kernel"))) == ("ScaleByAdamState", {"count", "mu", "nu"})
    np.testing.assert_allclose(kept.of("b.bias")["mu"], 1 - 0.9**3, rtol=1e-6)
    assert kept.of("b.kernel") == {}
    # Variables hold their parameters under "params".
    (inside,) = parts_of(stepped(chain, {"params": PARAMS}, 3), PATHS)
    assert inside.paths == set(PATHS)


def test_partitions_keep_their_own_parameters_and_places() -> None:
    labels = labels_by_path({"slow": ["a.kernel"], "fast": ["b.bias"]})
    chain = optax.partition({"slow": optax.sgd(SCHEDULE, momentum=0.9), "fast": optax.sgd(0.1)}, labels)
    parts = {part.label: part for part in parts_of(stepped(chain, PARAMS, 2), PATHS)}
    assert {label: part.paths for label, part in parts.items()} == {None: set(), "slow": {"a.kernel"}, "fast": set()}
    assert {label: part.place for label, part in parts.items()} == {None: None, "slow": 2, "fast": None}


def test_what_stands_around_partitions_holds_for_all() -> None:
    labels = labels_by_path({"one": ["a.kernel"], "two": ["b.bias"]})
    inner = lambda rate: optax.partition({"one": optax.sgd(rate, 0.9), "two": optax.sgd(rate)}, labels)  # noqa: E731
    state = stepped(reduce_on_torch_plateau(inner, 0.1, patience=0), PARAMS, 3, value=jnp.asarray(2.0))
    for part in parts_of(state, PATHS):
        assert part.rates["learning_rate"] == pytest.approx(0.1 * 0.1**2, rel=1e-6), part.label
        assert (part.rates["best"], part.rates["num_bad_epochs"]) == (2.0, 0)


def test_an_accumulators_gradients_are_not_the_optimizers() -> None:
    for around in (accumulate_torch(optax.sgd(0.1, 0.9), 2), optax.MultiSteps(optax.sgd(0.1, 0.9), 2)):
        (part,) = parts_of(around.init(PARAMS), PATHS)
        assert [kept.name for kept in part.kept] == ["TraceState"]


def test_what_no_pair_knows_is_found_where_it_keeps_something_of_parameters() -> None:
    (part,) = parts_of(optax.lion(0.1).init(PARAMS), PATHS)
    assert [kept.name for kept in part.kept] == ["ScaleByLionState"]
    (part,) = parts_of(optax.lion(0.1).init({"other": jnp.ones(2)}), PATHS)
    assert part.kept == []


def test_shapes_do_as_well() -> None:
    (part,) = parts_of(jax.eval_shape(optax.adam(0.1).init, PARAMS), PATHS)
    assert part.kept[0].of("a.kernel")["nu"].shape == (2, 3)
    (part,) = parts_of(torch_lbfgs(0.1).init(PARAMS), PATHS)
    assert (len(part.lbfgs), part.kept) == (1, [])
