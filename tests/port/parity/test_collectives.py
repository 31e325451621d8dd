"""The collectives of a compiled program's text, and which of them nobody meant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from port.parity.collectives import Collective, bytes_a_device, collectives_of, counted, unmeant

MESH = {"fsdp": 2, "tensor": 2}
SHAPES = {"kernel": (8, 6), "layers.kernel": (3, 8, 4), "scale": (8,)}


def line(kind: str, groups: str, made: str = "f64[8,6]{1,0}") -> str:
    return f'  %x.1 = {made} {kind}(%a), {groups}, use_global_device_ids=true, metadata={{op_name="jit(f)/d"}}'


@pytest.mark.parametrize(
    ("groups", "along"),
    [
        ("replica_groups={{0,1},{2,3}}", ("tensor",)),
        ("replica_groups={{0,2},{1,3}}", ("fsdp",)),
        ("replica_groups={{0,1,2,3}}", ("fsdp", "tensor")),
        ("replica_groups={}", ("fsdp", "tensor")),
        ("replica_groups=[2,2]<=[4]", ("tensor",)),
        ("replica_groups=[2,2]<=[2,2]T(1,0)", ("fsdp",)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=2] {'axis_0'}", ("fsdp",)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=1,'axis_2'=2] {'axis_2'}", ("tensor",)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=2], device_ids=([2,2]T(1,0)) {'axis_0'}", ("tensor",)),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=1,'axis_2'=2], device_ids=([4]) {'axis_0'}", ("fsdp",)),
        ("replica_groups=mesh['axis_0'=4], device_ids=(3,1,2,0) {'axis_0'}", ("?",)),
        ("replica_groups=mesh['axis_0'=4] {'axis_0':(1)2}", ("?",)),
        ("replica_groups=something new", ("?",)),
    ],
)
def test_groups_of_devices_are_axes_of_the_mesh(groups: str, along: tuple[str, ...]) -> None:
    (found,) = collectives_of(line("all-reduce", groups), MESH)
    assert found == Collective("all-reduce", along, (("f64", (8, 6)),), "jit(f)/d")


def test_several_that_are_joined_are_one_and_idle_ones_none() -> None:
    made = "(f64[8,6]{1,0}, f32[3,2]{0,1}, f64[] /*index=3*/)"
    text = "\n".join(
        [
            line("all-reduce", "replica_groups={{0,2},{1,3}}", made),
            line("all-gather", "replica_groups={{0},{1},{2},{3}}"),
            line("collective-permute", "source_target_pairs={{0,1},{1,0}}"),
            "  %y = f64[8]{0} add(%a, %all-reduce.3)",
        ]
    )
    found = collectives_of(text, MESH)
    assert found[0].shapes == (("f64", (8, 6)), ("f32", (3, 2)), ("f64", ()))
    assert counted(found) == {("all-reduce", ("fsdp",)): 1, ("collective-permute", ("tensor",)): 1}


@pytest.mark.parametrize(
    ("kind", "along", "shape"),
    [
        ("all-gather", ("fsdp",), (8, 6)),  # a parameter
        ("all-gather", ("fsdp",), (8, 3)),  # that tensor divides
        ("all-gather", ("fsdp",), (8, 4)),  # of one layer of a stack
        ("all-reduce", ("fsdp",), (6, 8)),  # a gradient
        ("reduce-scatter", ("fsdp",), (4, 6)),
        ("all-reduce", ("fsdp",), ()),  # the loss
        ("all-reduce", ("tensor",), (2, 5, 8)),  # activations behind a projection
    ],
)
def test_what_is_meant(kind: str, along: tuple[str, ...], shape: tuple[int, ...]) -> None:
    assert not unmeant([Collective(kind, along, (("f64", shape),))], SHAPES, MESH, ("fsdp",))


@pytest.mark.parametrize(
    ("kind", "along", "shape", "said"),
    [
        ("all-gather", ("fsdp",), (2, 5, 8), "activations are gathered"),
        ("all-reduce", ("fsdp",), (2, 5, 8), "activations are summed"),
        ("all-gather", ("tensor",), (8, 6), "not gathered"),
        ("all-to-all", ("fsdp",), (8, 6), "moves shards between devices"),
        ("collective-permute", ("tensor",), (8, 6), "moves shards between devices"),
        ("all-reduce", ("fsdp", "tensor"), (2, 5, 8), "at once"),
        ("all-reduce", ("?",), (8, 6), "moves shards between devices"),
    ],
)
def test_what_is_not(kind: str, along: tuple[str, ...], shape: tuple[int, ...], said: str) -> None:
    (told,) = unmeant([Collective(kind, along, (("f64", shape),))], SHAPES, MESH, ("fsdp",))
    assert said in told


def test_bytes_are_counted_by_device() -> None:
    held = bytes_a_device({"a": jnp.ones((3, 4), jnp.float32), "key": jax.random.key(0)})
    assert held == {jax.devices()[0]: 48}
