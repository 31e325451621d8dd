"""Which sharding each tensor gets, and what cannot be: all of it in one message."""

from __future__ import annotations

from contextlib import suppress

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from port.errors import UsageError, WeightsMismatch
from port.weights.shardings import shardings_of

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)


@pytest.fixture
def mesh():
    return jax.make_mesh((2, 2), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2)


def variables(**shapes):
    return {name: nnx.Param(jax.ShapeDtypeStruct(shape, jnp.float32)) for name, shape in shapes.items()}


def specs(*arguments):
    return {path: sharding.spec for path, sharding in shardings_of(*arguments).items()}


def test_one_for_all(mesh):
    own = variables(kernel=(4, 6), bias=(6,))
    assert specs(own, mesh, P("fsdp")) == {"kernel": P("fsdp"), "bias": P("fsdp")}
    assert specs(own, None, NamedSharding(mesh, P("data"))) == {"kernel": P("data"), "bias": P("data")}


def test_a_function_of_path_and_shape(mesh):
    own = variables(kernel=(4, 6), bias=(6,))
    given = specs(own, mesh, lambda path, shape: P(None, "fsdp") if path == "kernel" and len(shape) == 2 else None)
    assert given == {"kernel": P(None, "fsdp"), "bias": P()}


def test_a_table_the_first_that_fits(mesh):
    own = variables(a=(4, 6), b=(6,), ab=(2,))
    assert specs(own, mesh, {"a": P("fsdp"), "a.*": ("data",), ".*": P()}) == {
        "a": P("fsdp"),
        "b": P(),
        "ab": P("data"),
    }


def test_what_the_variables_carry(mesh):
    with nnx.use_eager_sharding(False):
        linear = nnx.eval_shape(
            lambda: nnx.Linear(
                4, 6, rngs=nnx.Rngs(0), kernel_init=nnx.with_partitioning(nnx.initializers.ones, ("embed", "fsdp"))
            )
        )
    own = {"kernel": linear.kernel, "bias": linear.bias}
    with nnx.logical_axis_rules([("embed", "data"), ("fsdp", "fsdp")]):
        assert specs(own, mesh) == {"kernel": P("data", "fsdp"), "bias": P()}
    with pytest.raises(WeightsMismatch, match=r"kernel: .* names embed, but the mesh has data, fsdp"):
        specs(own, mesh)


def test_the_sharding_that_an_abstract_array_has(mesh):
    held = jax.ShapeDtypeStruct((4, 6), jnp.float32, sharding=NamedSharding(mesh, P("fsdp")))
    assert specs({"kernel": nnx.Param(held)}) == {"kernel": P("fsdp")}
    assert specs({"kernel": held}, mesh) == {"kernel": P("fsdp")}


def test_all_that_cannot_be_is_said_at_once(mesh):
    own = variables(odd=(3, 8), wide=(9, 5), bias=(6,), twice=(4, 4), named=(2,), left=(2,))
    table = {
        "odd": P("fsdp"),
        "wide": P(("data", "fsdp")),
        "bias": P(None, "fsdp"),
        "twice": P("fsdp", "fsdp"),
        "named": P("tensor"),
        "nothing": P(),
    }
    with pytest.raises(WeightsMismatch) as refused:
        shardings_of(own, mesh, table)
    told = str(refused.value)
    for part in (
        "odd (3, 8): axis 0 of 3 is not divided by fsdp of 2 devices; it would be by 3, and 2 divide axis 1 (8)",
        "wide (9, 5): axis 0 of 9 is not divided by data × fsdp of 4 devices; it would be by 3, 9, and no other axis",
        "bias (6,): PartitionSpec(None, 'fsdp') is for 2 axes, but the tensor has 1",
        "twice: PartitionSpec('fsdp', 'fsdp') has fsdp twice",
        "named: PartitionSpec('tensor',) names tensor, but the mesh has data, fsdp",
        "left matches no pattern",
        "the pattern 'nothing' matches no tensor",
    ):
        assert part in told.replace("P(None", "PartitionSpec(None").replace(" P('", " PartitionSpec('")
    assert len(told.splitlines()) == 8


@pytest.mark.parametrize(
    ("sharding", "says"),
    [
        (3, "got int"),
        ({"(": P()}, "regular expressions"),
        (lambda path, shape: 3, "must be a PartitionSpec"),
    ],
)
def test_what_is_no_sharding(mesh, sharding, says):
    with pytest.raises(UsageError, match=says):
        shardings_of(variables(a=(2,)), mesh, sharding)


def test_a_spec_needs_a_mesh():
    with pytest.raises(UsageError, match="pass the mesh too"):
        shardings_of(variables(a=(2,)), None, P("fsdp"))
