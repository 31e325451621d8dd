"""The processes that share a run, in JAX: finding one another, and comparing their configurations. Alone:

python -m side_by_side.jax.processes
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from port.errors import UsageError
from side_by_side.config import Config
from side_by_side.jax.replicas import Pmap, Replicas, Sharding, ShardMap
from side_by_side.jax.sharded_replicas import FullySharded
from side_by_side.ranks import check_the_same, fingerprints

# %% Finding one another


@contextmanager
def joined(config: Config, platform: str | None = None) -> Iterator[Replicas]:
    """This process's replicas; among several processes, once it has found the others.

    Raises:
        UsageError: fewer devices than the config wants, or no way to the other processes.
    """
    if config.replicas > 1:
        with suppress(RuntimeError):  # it has been used: then there are as many as there are
            asked_for: int = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
            jax.config.update("jax_num_cpu_devices", max(config.devices, asked_for))  # a CPU is as many (D9)
    if config.processes > 1 and not jax.distributed.is_initialized():
        _find_the_others(config)
    there = len(local_devices(platform))
    if there < config.devices:
        raise UsageError(f"{config.devices} devices are configured, but JAX has {there} here: choose --devices {there}")
    _check_as_many(platform)
    forms = {"pmap": Pmap, "shard-map": ShardMap, "sharding": Sharding, "fsdp": FullySharded}
    form = forms[config.parallel] if config.replicas > 1 else Replicas
    yield form(config, jax.process_index(), jax.process_count(), platform)


def local_devices(platform: str | None) -> list[jax.Device]:
    """This process's devices of a platform: "cpu", "gpu" …; None is the best that there is.

    Raises:
        UsageError: there is none.
    """
    try:
        return jax.local_devices(backend=platform)
    except RuntimeError:
        raise UsageError("JAX sees no GPU here; choose --device auto or cpu (and --proof-device cpu)") from None


# %% The same configuration


def check_the_others(replicas: Replicas, weights: Any, first_step: int) -> None:
    """Compare every process's configuration.

    Raises:
        UsageError: they differ; names the processes.
    """
    mine = fingerprints(replicas.config, map(np.asarray, jax.tree.leaves(weights)), first_step)
    everybody = [mine]
    if replicas.processes > 1:
        bits = {what: np.frombuffer(digest, np.uint8) for what, digest in mine.items()}
        gathered = multihost_utils.process_allgather(bits)  # each (processes, 32)
        everybody = [
            {what: rows[rank].tobytes() for what, rows in gathered.items()} for rank in range(replicas.processes)
        ]
    check_the_same(everybody)


def _find_the_others(config: Config) -> None:
    """By what the launcher says in the environment, or else what jax knows of clusters: Slurm, TPU pods, Open MPI.

    On CPUs the processes then talk by gloo, as torchrun's ranks do (D10).
    """
    address, rank = os.environ.get("JAX_COORDINATOR_ADDRESS"), os.environ.get("JAX_PROCESS_ID")
    identity: dict[str, Any] = {}
    if rank is not None:
        if not rank.isdecimal():
            raise UsageError(f"JAX_PROCESS_ID is one of 0, 1 … {config.processes - 1}, got {rank!r}")
        identity = {"process_id": int(rank), "num_processes": config.processes}
    if rank is not None and address is not None:
        # Where process 0 cannot listen, or nobody answers the others, jax 0.10 crashes.
        _check_free(address) if rank == "0" else _wait_for(address, config.time_limit)
    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM for a notice, and stay
    try:
        # Whoever has not been heard of for 30 seconds is taken for dead, and the others end.
        jax.distributed.initialize(
            address, heartbeat_timeout_seconds=30, initialization_timeout=int(config.time_limit), **identity
        )
    except (RuntimeError, ValueError) as error:
        raise _alone(str(error).splitlines()[0]) from None
    if jax.process_count() != config.processes:
        raise UsageError(f"--processes {config.processes}, but {jax.process_count()} were started: make them the same")


def _check_free(address: str) -> None:
    """Process 0 listens there."""
    try:
        port = int(address.rpartition(":")[2])
        if port not in range(1, 65_536):
            raise ValueError(f"{port} is no port")
        with socket.create_server(("", port)):
            pass
    except (OSError, ValueError) as error:
        raise UsageError(
            f"process 0 cannot listen at JAX_COORDINATOR_ADDRESS={address} ({error}): give host:port with a free port "
            "of its host"
        ) from None


def _wait_for(address: str, seconds: float) -> None:
    """Somebody has to listen there."""
    host, _, port = address.rpartition(":")
    give_up = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=max(0.1, give_up - time.monotonic())):
                return
        except (OSError, ValueError, OverflowError) as error:
            if time.monotonic() > give_up or not isinstance(error, OSError):
                raise _alone(error) from None
        time.sleep(0.1)


def _alone(why: object) -> UsageError:
    variables = " and ".join(
        f"{name}={os.environ.get(name, '')}" for name in ("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID")
    )
    return UsageError(
        f"with {variables} this process does not find the others ({why}): give each of them "
        "JAX_COORDINATOR_ADDRESS=host:port (a free port of process 0's host) and JAX_PROCESS_ID=0, 1 …, or start them "
        "under Slurm, Open MPI or on a TPU pod"
    )


def _check_as_many(platform: str | None) -> None:
    counts = Counter(device.process_index for device in jax.devices(platform))
    others = [rank for rank, count in sorted(counts.items()) if count != counts[0]]
    if others:
        raise UsageError(
            f"rank {others[0]} has {counts[others[0]]} devices, rank 0 has {counts[0]}: all processes need as many; "
            "start them with the same --devices"
        )


# %% A process that is alone


def main() -> None:
    """One process, which agrees with itself; and the error if others are configured that were not started."""
    with joined(Config()) as replicas:
        weights = {"kernel": np.ones((3, 2))}
        check_the_others(replicas, weights, first_step=0)
        print(f"rank {replicas.rank} of {replicas.processes}, {replicas.own} replica of {replicas.config.replicas}")
    try:
        with joined(Config(devices=2)):
            pass
    except UsageError as error:
        print(error)


if __name__ == "__main__":
    main()
