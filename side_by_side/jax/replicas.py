"""The replicas that share a batch, in JAX: devices of one process or of several, in each of JAX's three forms.

`side_by_side/jax/parallel.py` explains the forms; here they are what the trainer needs of them. A train step is
written once. Between its local part and its update it calls what a form says about `local`, `mean` and `first`.

Alone, to see their samples: python -m side_by_side.jax.replicas
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from port.data import IndexPlan, Places
from side_by_side.config import Config
from side_by_side.jax import checkpoint
from side_by_side.ranks import Rank

REPLICA = "replica"  # the mapped axis


# %% The inputs of a step


class Batch(NamedTuple):
    """The inputs of a step: the samples that it sees, microbatch by microbatch."""

    images: Any  # (microbatches, n, H, W, C) uint8; numpy's until they are on a device
    labels: Any  # (microbatches, n) int32
    rows: Any  # (microbatches, n) int32: their positions in the batch that dropout masks are drawn for; None: all of it
    real: Any  # (microbatches, n) bool: False fills up an uneven batch; None where nothing does


class Sizes(NamedTuple):
    """What a step needs to know about the whole batch; static, as shapes come of it."""

    batch: int  # samples in the global batch
    masks: int  # samples that dropout masks are drawn for


# %% The replicas


@dataclass(frozen=True)
class Replicas(Rank):
    """One device that has the batch to itself; the base of the forms below."""

    platform: str | None = None  # "cpu", "gpu" …; None is the best that there is

    @property
    def devices(self) -> list[jax.Device]:
        """One a replica, process by process."""
        everywhere = sorted(jax.devices(self.platform), key=lambda device: (device.process_index, device.id))
        of_process = [[d for d in everywhere if d.process_index == rank] for rank in range(self.processes)]
        return [device for devices in of_process for device in devices[: self.own]]

    @property
    def checkpoints(self) -> Any:
        """The module that saves and restores: the whole state by one process."""
        return checkpoint

    def compile(self, step: Callable[..., Any], state: Any) -> Callable[..., Any]:
        """``step(state, batch, key, sizes)`` for all replicas at once; the state is donated, its successor returned."""
        return jax.jit(step, static_argnums=3, donate_argnums=0)

    def replicate(self, state: Any) -> Any:
        """The state as `compile`'s step takes it."""
        return state

    def one(self, state: Any) -> Any:
        """The state of replica 0, on one device of this process: to evaluate, and to save."""
        return state

    def whole(self, state: Any) -> Any:
        """All of the state, of which a device may hold a part: to write back to the model."""
        return self.one(state)

    def place(self, images: np.ndarray, labels: np.ndarray, places: Places) -> tuple[Batch, Sizes]:
        """What this process has loaded, as `compile`'s step takes it."""
        k = self.config.accumulate
        masks = {"global": (places.rows, places.batch_size), "replica": (places.own_rows, places.own_size)}
        rows, drawn_for = masks[self.config.dropout_masks]
        fills_up = self.config.uneven == "weight" and not self.config.drop_last
        batch = Batch(
            images.reshape(k, -1, *images.shape[1:]),
            labels.reshape(k, -1),
            rows if self.config.replicas * k > 1 or fills_up else None,
            places.real if fills_up else None,
        )
        return self._shard(batch), Sizes(places.batch_size, drawn_for)

    def _shard(self, batch: Batch) -> Batch:
        return batch

    @property
    def averaged(self) -> int:
        """How many losses `mean` averages: each is of an equal part of the batch."""
        return 1

    def local(self, tree: Any) -> Any:
        """Parameters and statistics as a replica's own part of the step uses them."""
        return tree

    def part(self, gradients: Any) -> Any:
        """What of a microbatch's gradients a device keeps, to add the next ones to."""
        return gradients

    def mean(self, tree: Any) -> Any:
        """Losses and gradients of the replicas, averaged."""
        return tree

    def first(self, tree: Any) -> Any:
        """Replica 0's statistics, for all, as DDP broadcasts them (D5)."""
        return tree

    def key(self, key: jax.Array) -> jax.Array:
        """The key of a replica's dropout masks: one for all, whose rows they take, or one for each."""
        return key

    def finish(self, measured: dict[str, jax.Array]) -> None:
        """Called after every update; waits for it only if the devices are one CPU's.

        Virtual devices share few threads. With several updates under way, one may hold the threads that another's
        all-reduce waits for, and both wait forever (seen: jax 0.10.2, pmap, 4 devices on 2 cores).
        """
        if self.config.replicas > 1 and self.devices[0].platform == "cpu":
            jax.block_until_ready(measured["loss"])


# %% Only on this side


class _Mapped(Replicas):
    @property
    def averaged(self) -> int:
        return self.config.replicas

    def mean(self, tree: Any) -> Any:
        return jax.lax.pmean(tree, REPLICA)

    def first(self, tree: Any) -> Any:
        is_first = jax.lax.axis_index(REPLICA) == 0
        return jax.tree.map(lambda x: jax.lax.psum(jnp.where(is_first, x, jnp.zeros_like(x)), REPLICA), tree)

    def key(self, key: jax.Array) -> jax.Array:
        own = self.config.dropout_masks == "replica"
        return jax.random.fold_in(key, jax.lax.axis_index(REPLICA)) if own else key


class Pmap(_Mapped):
    """jax.pmap: state and batch have a leading axis of this process's devices (D1)."""

    def compile(self, step: Callable[..., Any], state: Any) -> Callable[..., Any]:
        # out_axes None: what was measured is the same everywhere, and comes without the axis (D13).
        return jax.pmap(
            step,
            REPLICA,
            in_axes=(0, 0, None),  # type: ignore[arg-type]
            out_axes=(0, None),  # type: ignore[arg-type]
            static_broadcasted_argnums=3,
            donate_argnums=0,
            devices=self.devices,
        )

    def replicate(self, state: Any) -> Any:
        return jax.tree.map(lambda x: np.stack([np.asarray(x)] * self.own), state)

    def one(self, state: Any) -> Any:
        return jax.tree.map(lambda x: x.addressable_data(0)[0], state)  # x[0] would be a gather (D13)

    def _shard(self, batch: Batch) -> Batch:
        def by_device(x: np.ndarray) -> np.ndarray:  # (k, devices · n, …) → (devices, k, n, …)
            return x.reshape(len(x), self.own, -1, *x.shape[2:]).swapaxes(0, 1)

        return jax.tree.map(by_device, batch)


class _OnMesh(Replicas):
    """Arrays of all processes' devices: the state is on each, a batch is shared out along its second axis."""

    @property
    def mesh(self) -> Mesh:
        # Auto: the compiler sees to the sharding inside, and shard_map takes arrays from anywhere (D4).
        return Mesh(np.array(self.devices), (REPLICA,), axis_types=(AxisType.Auto,))

    def replicate(self, state: Any) -> Any:
        everywhere = NamedSharding(self.mesh, P())
        # From the host: an array of one process's device would have to be sent to the others.
        return jax.tree.map(lambda x: jax.device_put(np.asarray(x), everywhere), state)

    def one(self, state: Any) -> Any:
        return jax.tree.map(lambda x: x.addressable_data(0), state)

    def _shard(self, batch: Batch) -> Batch:
        shared_out = NamedSharding(self.mesh, P(None, REPLICA))
        return jax.tree.map(partial(jax.make_array_from_process_local_data, shared_out), batch)


class ShardMap(_OnMesh, _Mapped):
    """jax.shard_map under jit: the same step as pmap's, on arrays of the whole mesh."""

    def compile(self, step: Callable[..., Any], state: Any) -> Callable[..., Any]:
        def update(state: Any, batch: Batch, key: jax.Array, sizes: Sizes) -> Any:
            of_replica = jax.shard_map(
                partial(step, sizes=sizes),
                mesh=self.mesh,
                in_specs=(P(), P(None, REPLICA), P()),
                out_specs=(P(), P()),
            )
            return of_replica(state, batch, key)

        return jax.jit(update, static_argnums=3, donate_argnums=0)

    def local(self, tree: Any) -> Any:
        # shard_map knows that parameters are the same on all devices, and would sum their gradients up by itself:
        # pmean(gradients) were then N times too large (D2). As a replica's own they are each replica's to average,
        # once for all microbatches.
        return jax.tree.map(lambda x: jax.lax.pcast(x, REPLICA, to="varying"), tree)


class Sharding(_OnMesh):
    """jax.jit over a sharded batch: one device's step, unchanged; batch statistics are the whole batch's (D5)."""


# %% The samples of each


def main() -> None:
    """Two replicas that share a batch of eight, in two microbatches each: who sees what, and for which masks."""
    for split in ("interleaved", "contiguous"):
        config = Config(batch_size=8, devices=2, accumulate=2, split=split)
        plan = IndexPlan(length=8, batch_size=8, seed=0)
        for rank in range(2):
            replicas = Replicas(config, rank, processes=2)
            share = replicas.share(plan, filled=False)
            samples = share.epoch(0)  # in place of images: which they are
            batch, sizes = replicas.place(samples, samples, share.places(0))
            labels = batch.labels.tolist()
            rows = batch.rows.tolist()
            print(f"{split:<11} replica {rank}: samples {labels}, rows {rows} of {sizes.masks}")


if __name__ == "__main__":
    main()
