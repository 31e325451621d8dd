"""Data parallelism: what its notes say of pmap's results, of DDP's buckets and hooks, and of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.distributed as dist
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

REPLICAS = 4
with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", REPLICAS)


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def normalised(x: Any, axis_name: str | None = None) -> Any:
    mean = (lambda x: x) if axis_name is None else partial(jax.lax.pmean, axis_name=axis_name)
    centred = x - mean(x.mean(0))
    return centred / jnp.sqrt(mean(jnp.square(centred).mean(0)) + 1e-5)


def test_D5_statistics_are_each_replicas_or_the_whole_batchs(float64: None) -> None:
    x = np.random.default_rng(0).normal(size=(REPLICAS * 3, 5)) * np.arange(1, 13)[:, None]
    norm = torch.nn.BatchNorm1d(5, dtype=torch.float64)
    whole = norm(torch.from_numpy(x)).detach().numpy()
    by_rank = np.concatenate([norm(part).detach().numpy() for part in torch.from_numpy(x).split(3)])
    assert np.abs(whole - by_rank).max() > 0.1

    parts = x.reshape(REPLICAS, 3, 5)
    close = {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(np.concatenate(jax.pmap(normalised)(parts)), by_rank, **close)
    together = jax.pmap(partial(normalised, axis_name="replica"), "replica")(parts)
    np.testing.assert_allclose(np.concatenate(together), whole, **close)

    mesh = jax.make_mesh((REPLICAS,), ("replica",), axis_types=(AxisType.Auto,))
    sharded = jax.device_put(x, NamedSharding(mesh, P("replica")))
    np.testing.assert_allclose(jax.jit(normalised)(sharded), whole, **close)
    own = jax.shard_map(normalised, mesh=mesh, in_specs=P("replica"), out_specs=P("replica"))
    np.testing.assert_allclose(jax.jit(own)(sharded), by_rank, **close)


@pytest.mark.parametrize("looks_for_unused", [False, True])
def test_D16_buckets_are_laid_out_anew_unless_unused_parameters_are_looked_for(
    one_rank: None, looks_for_unused: bool
) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 2))
    replica = DistributedDataParallel(layers, find_unused_parameters=looks_for_unused)
    steps: list[list[tuple[int, ...]]] = []

    def seen(state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are strings (D18)
        steps[-1] += [tuple(parameter.shape) for parameter in bucket.parameters()]
        return allreduce_hook(state, bucket)

    replica.register_comm_hook(None, seen)
    for _ in range(3):
        steps.append([])
        replica(torch.ones(4, 5)).sum().backward()
    assert steps[0] == [tuple(parameter.shape) for parameter in layers.parameters()]
    assert steps[1] == steps[2] == (steps[0] if looks_for_unused else steps[0][::-1])


def test_D17_out_axes_none_hides_copies_that_parted(float64: None) -> None:
    random = np.random.default_rng(0)
    params, x = random.normal(size=3), random.normal(size=(REPLICAS, 3))

    def loss(params: Any, row: Any) -> Any:
        return jax.lax.pmean(jnp.square(row @ params), "replica")

    def parted(params: Any, row: Any) -> Any:
        return params - 0.1 * jax.grad(loss)(params, row)  # D3

    def together(params: Any, row: Any) -> Any:
        return params - 0.1 * jax.lax.pmean(jax.grad(lambda p: jnp.square(row @ p))(params), "replica")

    expected = torch.tensor(params, requires_grad=True)
    (torch.from_numpy(x) @ expected).square().mean().backward()
    right = params - 0.1 * expected.grad.numpy()  # type: ignore[union-attr]
    for step, differ in ((parted, True), (together, False)):
        rows = np.asarray(jax.pmap(step, "replica", in_axes=(None, 0))(params, x))
        one = jax.pmap(step, "replica", in_axes=(None, 0), out_axes=None)(params, x)
        np.testing.assert_array_equal(one, rows[0])  # whatever the others are
        assert (np.ptp(rows, axis=0).max() > 1e-2) == differ
        assert (np.abs(one - right).max() > 1e-2) == differ
    # shard_map knows of it.
    mesh = jax.make_mesh((REPLICAS,), ("replica",), axis_types=(AxisType.Auto,))
    with pytest.raises(ValueError, match="out_specs"):
        jax.shard_map(lambda rows: rows[0], mesh=mesh, in_specs=P("replica"), out_specs=P())(x)


HOOK = """
import torch
def hook(state: object, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    raise AssertionError
"""


def test_D18_a_hook_with_annotations_that_are_strings_is_refused(one_rank: None) -> None:
    def registered(source: str) -> None:
        names: dict[str, Any] = {}
        exec(compile(source, "hook", "exec", dont_inherit=True), names)
        DistributedDataParallel(torch.nn.Linear(3, 2)).register_comm_hook(None, names["hook"])

    registered(HOOK)
    with pytest.raises(ValueError, match="annotation should be"):
        registered(f"from __future__ import annotations{HOOK}")


ONTO_ALL = """
import os
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

address, rank = os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_PROCESS_ID"])
jax.distributed.initialize(address, 2, rank)
own = jax.device_put(np.arange(6.0).reshape(2, 3), jax.local_devices()[0])
everywhere = NamedSharding(jax.make_mesh((2,), ("replica",), axis_types=(AxisType.Auto,)), P())
try:
    jax.device_put(own, everywhere)
except ValueError as error:
    assert "cross-host" in str(error), error
else:
    raise SystemExit("it was taken")
assert jax.device_put(np.asarray(own), everywhere).sharding.device_set == set(jax.devices())
"""


@pytest.mark.sweep
def test_D22_a_committed_array_goes_to_all_processes_by_the_host() -> None:
    launcher = ("-P", "-m", "port.training.launch", "--processes", "2", "--", sys.executable, "-c", ONTO_ALL)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    done = subprocess.run([sys.executable, *launcher], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
