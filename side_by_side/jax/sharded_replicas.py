"""Replicas that share the state too, in JAX: every array of it is cut up among the devices of a mesh.

`side_by_side/jax/fsdp.py` explains what is gathered and scattered; here is what the trainer needs of it. Alone, to
count what a device holds of our MLP:

    python -m side_by_side.jax.sharded_replicas
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from port.errors import UsageError
from port.weights.mesh_cut import Longest
from side_by_side.config import Config
from side_by_side.jax import sharded_checkpoint
from side_by_side.jax.model import build
from side_by_side.jax.optimizer import make_optimizer, make_schedule
from side_by_side.jax.replicas import REPLICA, Sharding

# %% Who holds what


def cut(shape: tuple[int, ...], devices: int) -> P:
    """The longest axis that the devices divide is shared out among them; without one, each has all of it (D23).

    `port convert --format orbax --mesh` cuts a checkpoint in the same places.
    """
    return P(*Longest(REPLICA, devices)("", shape))


def bytes_held(arrays: Iterable[jax.Array]) -> int:
    """How many bytes of them one device holds between two steps."""
    return sum(array.addressable_data(0).nbytes for array in arrays)


# %% The replicas


class FullySharded(Sharding):
    """jax.jit over a sharded batch and a sharded state: the compiler gathers a parameter where it is used.

    What an all-reduce of the gradients is for DDP comes in two halves: they are reduced and scattered, so that each
    device updates its part of the parameters alone; and the parameters are gathered when they are needed next.
    """

    @property
    def checkpoints(self) -> Any:
        return sharded_checkpoint

    def compile(self, step: Callable[..., Any], state: Any) -> Callable[..., Any]:
        shardings = jax.tree.map(lambda x: x.sharding, state)
        everywhere = NamedSharding(self.mesh, P())
        return jax.jit(
            step,
            static_argnums=3,
            donate_argnums=0,
            in_shardings=(shardings, NamedSharding(self.mesh, P(None, REPLICA)), everywhere),
            out_shardings=(shardings, everywhere),
        )

    def replicate(self, state: Any) -> Any:
        """Shard every array over the devices: the optimizer's too, which have the parameters' shapes.

        Raises:
            UsageError: the devices divide no axis of any array, so that each would hold all of them.
        """
        largest = max(jax.tree.leaves(state), key=np.size)
        devices = self.config.replicas
        if all(cut(x.shape, devices) == P() for x in jax.tree.leaves(state)):
            fewer = max(n for n in range(1, devices) if max(largest.shape) % n == 0)
            raise UsageError(
                f"{devices} devices divide no axis of the model's parameters, the largest of which has the shape "
                f"{tuple(largest.shape)}: with --parallel fsdp choose a number of devices that divides an axis, "
                f"{fewer} for example"
            )
        return jax.tree.map(lambda x: jax.device_put(np.asarray(x), self._sharding_of(x)), state)

    def one(self, state: Any) -> Any:
        """The state as it is: evaluation gathers what it uses, and a checkpoint is written by all."""
        return state

    def whole(self, state: Any) -> Any:
        gather = jax.jit(lambda state: state, out_shardings=NamedSharding(self.mesh, P()))
        return super().one(gather(state))

    def local(self, tree: Any) -> Any:
        """Parameters whole, as the batch is what the devices share out in the forward and the backward pass."""
        return jax.lax.with_sharding_constraint(tree, NamedSharding(self.mesh, P()))

    def part(self, gradients: Any) -> Any:
        """Scattered with every microbatch: kept till the last one, each device would hold all (D27)."""
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, self._sharding_of(x)), gradients)

    def _sharding_of(self, x: Any) -> NamedSharding:
        return NamedSharding(self.mesh, cut(x.shape, self.config.replicas))


# %% What a device holds


def main() -> None:
    """Our MLP under Adam, on one device and on several: bytes that the first device holds between two steps.

    Each of pmap's devices holds what one device does. Gradients, which are values inside the step, lie as the
    parameters do.
    """
    jax.config.update("jax_num_cpu_devices", 8)
    for devices in (1, 2, 4, 8):
        config = Config(optimizer="adam", batch_size=8, devices=devices, parallel="fsdp")
        model = build(config)
        params = nnx.state(model, nnx.Param)
        optimizer = make_optimizer(config, make_schedule(config, total_steps=1), model)
        state = params, optimizer.init(params)
        if devices > 1:
            state = FullySharded(config).replicate(state)
        params, opt_state = state
        held = {
            "parameters": bytes_held(jax.tree.leaves(params)),
            "gradients": bytes_held(jax.tree.leaves(params)),
            "optimizer": bytes_held(jax.tree.leaves(opt_state)),
        }
        print(f"{devices} devices:", ", ".join(f"{what} {count:,}" for what, count in held.items()))


if __name__ == "__main__":
    main()
