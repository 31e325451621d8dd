"""Several devices: pmap and its helpers, xmap, pjit."""

from __future__ import annotations

from port.pairs.tutorials.outdated import Fate, Outdated

_MESH = """\
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.local_device_count(),), ("batch",))
"""

ROWS = (
    Outdated(
        "T34",
        says="""\
from flax import jax_utils

replicated = jax_utils.replicate(params)
result = jax_utils.unreplicate(replicated)""",
        fate=Fate.WORKS,
        happened="pmap wants one copy for each device, along an axis of its own; jit and shardings want no such axis.",
        today=_MESH + "result = jax.device_put(params, NamedSharding(mesh, P()))",
        torch="DistributedDataParallel(module) does it as it is made.",
    ),
    Outdated(
        "T35",
        says="result = jax.device_put_replicated(x, jax.local_devices())[0]",
        fate=Fate.GONE,
        error="AttributeError",
        happened="Deprecated in jax 0.8.1, and removed since.",
        today=_MESH + "result = jax.device_put(x, NamedSharding(mesh, P()))",
    ),
    Outdated(
        "T36",
        says="result = jax.device_put_sharded([x for _ in jax.local_devices()], jax.local_devices())[0]",
        fate=Fate.GONE,
        error="AttributeError",
        happened="Deprecated in jax 0.8.1, and removed since.",
        today=_MESH
        + """\
stacked = jnp.stack([x for _ in jax.local_devices()])
result = jax.device_put(stacked, NamedSharding(mesh, P("batch"))).addressable_data(0)[0]""",
    ),
    Outdated(
        "T37",
        says="""\
from flax.training import common_utils

batch = np.arange(8.0).reshape(8, 1)
result = common_utils.shard(batch).reshape(8, 1)""",
        fate=Fate.WORKS,
        happened="It only reshapes to (devices, N / devices, …), for pmap.",
        today=_MESH
        + """\
batch = np.arange(8.0).reshape(8, 1)
result = jax.device_put(batch, NamedSharding(mesh, P("batch")))""",
        torch="DistributedSampler's part, but each device gets one block of the batch (D7).",
    ),
    Outdated(
        "T38",
        says="""\
devices = jax.local_device_count()
batch = jnp.arange(8.0).reshape(devices, -1)
means = jax.pmap(lambda rows: jax.lax.pmean(rows.mean(), "batch"), axis_name="batch")(batch)
result = means[0]""",
        fate=Fate.WORKS,
        happened="pmap is jit and shard_map since jax 0.8.0, and in maintenance mode (D1).",
        today=_MESH
        + """\
batch = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("batch")))
result = jax.jit(jnp.mean)(batch)""",
        torch="The mean is over the whole batch: what all_reduce adds is XLA's to find out.",
    ),
    Outdated(
        "T39",
        says="""\
from jax.experimental.maps import Mesh, xmap

result = xmap(jnp.sin, in_axes=["batch"], out_axes=["batch"])(x)""",
        fate=Fate.GONE,
        error="ModuleNotFoundError",
        happened="Mesh went to jax.sharding in jax 0.4.1, xmap was removed in 0.4.31.",
        today="""\
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
result = jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("batch"), out_specs=P("batch"))(x)""",
    ),
    Outdated(
        "T40",
        says="""\
from jax.experimental.pjit import PartitionSpec, pjit

result = pjit(jnp.sin, in_axis_resources=PartitionSpec(), out_axis_resources=None)(x)""",
        fate=Fate.GONE,
        error="ImportError",
        happened="jit is pjit since jax 0.4.4; PartitionSpec went to jax.sharding in 0.4.1, and the options are "
        "in_shardings and out_shardings since 0.4.9.",
        today=_MESH
        + """\
replicated = NamedSharding(mesh, P())
result = jax.jit(jnp.sin, in_shardings=replicated, out_shardings=replicated)(x)""",
    ),
    Outdated(
        "T41",
        says="""\
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
result = shard_map(jnp.sin, mesh, in_specs=P("batch"), out_specs=P("batch"), check_rep=False)(x)""",
        fate=Fate.WARNS,
        happened="It is jax.shard_map; the old one is deprecated since jax 0.8.0.",
        today="""\
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
result = jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("batch"), out_specs=P("batch"), check_vma=False)(x)""",
        torch="It is a rank's own code, with collectives; but see D2 for what a gradient is in it.",
    ),
)
