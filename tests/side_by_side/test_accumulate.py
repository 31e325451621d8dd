"""Gradient accumulation: every form is the whole batch, or torch's accumulated twin; and the trap stays a trap."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
import torch.distributed as dist
from flax import nnx
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import side_by_side.jax.accumulate as ours
import side_by_side.pytorch.accumulate as theirs

K = 16
FORMS = ("unrolled", "fori_loop", "scan", "vmap")
# Each compiles for seconds; the lesson's own choice in every run of the tests.
SOON = [form if form == "scan" else pytest.param(form, marks=pytest.mark.sweep) for form in FORMS]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def in_torchs_layout(state: nnx.State) -> dict[str, np.ndarray]:
    names = {"kernel": "weight", "scale": "weight", "mean": "running_mean", "var": "running_var"}
    arrays = {}
    for (*path, name), leaf in nnx.to_flat_state(state):
        arrays[".".join([*map(str, path), names.get(str(name), str(name))])] = np.asarray(leaf[...]).T
    return arrays


def apart(arrays: dict[str, np.ndarray], tensors: dict[str, torch.Tensor]) -> float:
    """The largest relative difference of any array."""
    assert arrays.keys() == tensors.keys()
    right = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    assert all(arrays[name].shape == right[name].shape for name in right)
    return max(abs(arrays[name] - right[name]).max() for name in right) / max(abs(a).max() for a in right.values())


def gradients_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def whole_gradient(*, batch_norm: bool = False) -> Any:
    return ours.whole(ours.build(batch_norm=batch_norm), ours.draw_batch())


def accumulated(form: str, model: Any, k: int) -> Any:
    """Compiled, but for the Python loop: that takes long, and is right or wrong without."""
    function = partial(getattr(ours, form), k=k)
    return (function if form == "unrolled" else jax.jit(function))(model, ours.draw_batch())


def programs(form: Callable[..., Any], k: int, model: Any = None, batch: Any = None) -> Any:
    return jax.jit(partial(form, k=k)).trace(model or ours.build(), batch or ours.draw_batch())


# What it computes


@pytest.mark.parametrize("k", [4, 16])
@pytest.mark.parametrize("form", [*SOON, "data_parallel"])
@pytest.mark.sweep
def test_without_batch_statistics_it_is_the_whole_batch(form, k):
    loss, gradients, _ = accumulated(form, ours.build(), k)
    right = whole_gradient()
    assert ours.difference(gradients, right[1]) < 1e-12
    assert abs(loss - right[0]) < 1e-12

    twin = theirs.build()
    if form != "data_parallel":
        twin_loss = getattr(theirs, form)(twin, theirs.draw_batch(), k)
        assert apart(in_torchs_layout(gradients), gradients_of(twin)) < 1e-12
        assert abs(twin_loss.item() - loss) < 1e-12


@pytest.mark.parametrize("form", SOON)
@pytest.mark.sweep
def test_with_batch_statistics_it_is_torchs_accumulated_twin_and_not_the_whole_batch(form):
    model = ours.build(batch_norm=True)
    loss, gradients, stats = accumulated(form, model, K)
    twin, whole = theirs.build(batch_norm=True), theirs.build(batch_norm=True)
    twin_loss = getattr(theirs, form)(twin, theirs.draw_batch(), K)
    theirs.whole(whole, theirs.draw_batch())

    assert abs(twin_loss.item() - loss) < 1e-12
    assert apart(in_torchs_layout(gradients), gradients_of(twin)) < 1e-12
    assert apart(in_torchs_layout(stats), dict(twin.named_buffers())) < 1e-12
    assert stats.norm.num_batches_tracked[...] == (1 if form == "vmap" else K)
    assert ours.difference(gradients, whole_gradient(batch_norm=True)[1]) > 0.1
    assert apart(in_torchs_layout(gradients), gradients_of(whole)) > 0.1


def test_parts_of_unequal_size_are_refused():
    with pytest.raises(TypeError):
        ours.split(ours.draw_batch(), 7)
    with pytest.raises(RuntimeError):
        theirs.split(theirs.draw_batch(), 7)


# The trap


def test_in_jax_tree_functions_modify_nothing():
    total, more = {"a": jnp.ones((2, 3))}, {"a": jnp.full((2, 3), 5.0)}
    assert ours.add_(total, more) is total
    assert ours.div_(total, 4) is total
    np.testing.assert_array_equal(total["a"], 1.0)
    tensors = (torch.ones(2, 3),)
    theirs.div_(theirs.add_(tensors, (torch.full((2, 3), 5.0),)), 4)
    assert (tensors[0] == 1.5).all()


@pytest.mark.sweep
@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_wrong_version_updates_with_one_microbatch_alone(batch_norm):
    model, (x, y) = ours.build(batch_norm=batch_norm), ours.draw_batch()
    wrong = partial(ours.wrong, k=K)
    loss, gradients, _ = wrong(model, (x, y))
    first = ours.whole(model, (x[:4], y[:4]))
    assert ours.difference(gradients, first[1]) < 1e-12
    assert ours.difference(gradients, whole_gradient(batch_norm=batch_norm)[1]) > 0.1
    # Whatever the others are: the gradient stays, the loss does not.
    other_loss, unmoved, _ = wrong(model, (x.at[4:].set(x[4:] ** 2), y))
    assert ours.difference(unmoved, gradients) == 0
    assert abs(other_loss - loss) > 1e-6


@pytest.mark.sweep
def test_the_wrong_version_mixes_sum_and_mean_where_tensors_are_modified():
    """torch's twin adds; the sum of 16 means divided by 64 samples is a quarter of the mean."""
    twin = theirs.build()
    loss = theirs.wrong(twin, theirs.draw_batch(), K)
    right = whole_gradient()
    assert apart(in_torchs_layout(jax.tree.map(lambda leaf: leaf / 4, right[1])), gradients_of(twin)) < 1e-12
    assert abs(loss.item() - right[0] / 4) < 1e-12
    assert abs(ours.wrong(ours.build(), ours.draw_batch(), K)[0] - right[0] / 4) < 1e-12


@pytest.mark.sweep
def test_faults_are_caught(monkeypatch):
    right, twin = whole_gradient()[1], theirs.build()
    theirs.scan(twin, theirs.draw_batch(), K)
    split = ours.split
    faults: dict[str, tuple[str, Callable[..., Any]]] = {
        "sum taken for mean": ("mean", lambda total, k: total),
        "divided by the samples": ("mean", lambda total, k: jax.tree.map(lambda leaf: leaf / 64, total)),
        "one microbatch left out": ("split", lambda *given: jax.tree.map(lambda array: array[:-1], split(*given))),
        "nothing added": ("add", lambda total, model, part: total),
    }
    for fault, (name, function) in faults.items():
        with monkeypatch.context() as patch:
            patch.setattr(ours, name, function)
            gradients = ours.scan(ours.build(), ours.draw_batch(), K)[1]
        assert ours.difference(gradients, right) > 1e-3, fault
        assert apart(in_torchs_layout(gradients), gradients_of(twin)) > 1e-3, fault


# optax.MultiSteps


def updated(**options: Any) -> Any:
    return ours.multi_steps(ours.build(), ours.draw_batch(), K, optax.MultiSteps(optax.sgd(ours.LR), K, **options))


def test_multi_steps_averages_as_torch_does_with_the_loss_divided():
    twin, summed = theirs.build(), theirs.build()
    theirs.multi_steps(twin, theirs.draw_batch(), K, torch.optim.SGD(twin.parameters(), ours.LR))
    params = in_torchs_layout(updated(accumulator_dtype=float)[1])
    assert apart(params, dict(twin.named_parameters())) < 1e-12
    assert apart(params, dict(theirs.build().named_parameters())) > 1e-3  # it was an update

    # Without loss / k torch sums (O18): MultiSteps that sums is its twin then, and the one that averages is not.
    optimizer = torch.optim.SGD(summed.parameters(), ours.LR)
    for part in zip(*theirs.split(theirs.draw_batch(), K), strict=True):
        theirs.loss_fn(summed, part).backward()
    optimizer.step()
    assert apart(params, dict(summed.named_parameters())) > 0.1
    sums = in_torchs_layout(updated(accumulator_dtype=float, use_grad_mean=False)[1])
    assert apart(sums, dict(summed.named_parameters())) < 1e-12


def test_multi_steps_accumulates_in_float32_unless_told_otherwise():
    right = updated(accumulator_dtype=float)[1]
    assert 1e-12 < ours.difference(updated()[1], right) < 1e-6
    params = ours.build()[1]
    for options, dtype in (({}, "float32"), ({"accumulator_dtype": float}, "float64")):
        state = optax.MultiSteps(optax.sgd(ours.LR), K, **options).init(params)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(state.acc_grads)} == {dtype}


# Several replicas


@pytest.mark.parametrize(("sync_every", "times"), [(False, 1), (True, K)])
def test_no_sync_saves_all_reduces(one_rank, sync_every, times):
    sent = []

    # DDP refuses a hook whose annotations are strings: it has none.
    def counted(state, bucket):
        sent.append(bucket.buffer().numel())
        return allreduce_hook(state, bucket)

    model = theirs.build()
    replica = DistributedDataParallel(model)
    replica.register_comm_hook(None, counted)
    loss = theirs.data_parallel(replica, theirs.draw_batch(), K, sync_every=sync_every)
    right = whole_gradient()
    assert apart(in_torchs_layout(right[1]), gradients_of(model)) < 1e-12
    assert abs(loss.item() - right[0]) < 1e-12
    assert sum(sent) == times * sum(parameter.numel() for parameter in model.parameters())


def bodies(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        inner = getattr(value, "jaxpr", value)
        if hasattr(inner, "eqns"):
            yield inner


def psums(jaxpr: Any) -> int:
    """Numbers that go between replicas; a scan's body counts as often as it runs."""
    count = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name.startswith("psum"):
            count += sum(var.aval.size for var in equation.outvars)
        count += equation.params.get("length", 1) * sum(map(psums, bodies(equation)))
    return count


@pytest.mark.parametrize(("sync_every", "times"), [(False, 1), (True, K)])
def test_params_cast_to_varying_save_all_reduces(sync_every, times):
    traced = programs(partial(ours.data_parallel, sync_every=sync_every), K)
    loss = 1
    assert psums(traced.jaxpr) == loss + times * sum(leaf.size for leaf in jax.tree.leaves(ours.build()[1]))


TWO_REPLICAS = """
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 2)
from side_by_side.jax.accumulate import *
assert jax.device_count() == 2
right = whole(build(), draw_batch())
for sync_every in (False, True):
    loss, gradients, _ = data_parallel(build(), draw_batch(), 8, sync_every=sync_every)
    print(abs(loss - right[0]), difference(gradients, right[1]))
"""


@pytest.mark.sweep
def test_two_replicas_are_the_whole_batch():
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", TWO_REPLICAS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = [float(word) for word in done.stdout.split()]
    assert len(printed) == 4
    assert max(printed) < 1e-12


# What it costs, as far as that is no matter of time


def size(jaxpr: Any) -> int:
    return sum(1 + sum(map(size, bodies(equation))) for equation in jaxpr.eqns)


@pytest.mark.sweep
def test_the_program_of_a_loop_inside_does_not_grow_and_an_unrolled_one_does():
    def of(form: Callable[..., Any], k: int) -> int:
        return size(programs(form, k, batch=ours.draw_batch(4 * k)).jaxpr)

    assert of(ours.scan, 4) == of(ours.scan, 64)
    assert of(ours.fori_loop, 4) == of(ours.fori_loop, 64)
    assert of(ours.unrolled, 16) > 3.5 * of(ours.unrolled, 4) > 7 * of(ours.scan, 4)


@pytest.mark.sweep
def test_temporary_memory_falls_with_the_microbatch(optimized):
    model, batch = ours.build(256), ours.draw_batch(1024)

    def memory(form: Callable[..., Any], k: int) -> int:
        return programs(form, k, model, batch).lower().compile().memory_analysis().temp_size_in_bytes

    whole = memory(ours.whole, 1)
    for form in (ours.scan, ours.fori_loop):
        of_4, of_16, of_64 = (memory(form, k) for k in (4, 16, 64))
        assert whole > 2 * of_4 > 4 * of_16 > 8 * of_64
    assert memory(ours.vmap, 64) > whole
    assert memory(ours.unrolled, 8) > whole / 2


# Alone


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["jax", "pytorch"])
def test_alone_it_prints_what_it_shows(side):
    command = [sys.executable, "-m", f"side_by_side.{side}.accumulate"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    without, with_statistics, _ = done.stdout.split("distance")[1:]
    distances = dict(line.split()[:2] for line in without.splitlines()[1:])
    assert set(distances) == {"wrong", *FORMS, "data_parallel"}
    assert float(distances.pop("wrong")) > 0.1
    assert max(map(float, distances.values())) < 1e-12
    assert min(float(line.split()[1]) for line in with_statistics.splitlines()[1:]) > 0.1
