"""Logical names of axes, and the rules that say where on a mesh they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from port.errors import UnknownChoice, UsageError, WeightsMismatch
from port.nn import by_head, divided, gathered, load_on_mesh, logical_axes, on_mesh, rules_on, stacked
from port.nn.logical_axes import chosen_rules, names_of, partition_spec, shardings_by_rules, undivided

RULES = {"batch": ("data", "fsdp"), "embed": "fsdp", "mlp": "tensor", "vocab": "tensor", "length": None}


def mesh(**axes: int) -> Any:
    return AbstractMesh(tuple(axes.values()), tuple(axes))


def test_a_layer_with_names_is_constructed_without_a_mesh_and_keeps_them_in_a_stack() -> None:
    def layer() -> nnx.Linear:
        return nnx.Linear(4, 6, kernel_metadata=logical_axes("embed", "mlp"), rngs=nnx.Rngs(0))

    assert names_of(layer().kernel) == ("embed", "mlp")
    assert names_of(layer().bias) == ()
    stack = stacked([layer(), layer()])
    assert names_of(stack.kernel) == ("layers", "embed", "mlp")
    assert stack.kernel.shape == (2, 4, 6)


@pytest.mark.parametrize(
    ("axes", "names", "spec"),
    [
        ({"fsdp": 2, "tensor": 4}, ("embed", "mlp"), ("fsdp", "tensor")),
        ({"fsdp": 2}, ("embed", "mlp"), ("fsdp", None)),
        ({"data": 2, "fsdp": 4}, ("batch", "length", "embed"), (("data", "fsdp"), None, None)),
        ({"data": 2, "tensor": 2}, ("batch", None, "mlp"), ("data", None, "tensor")),
    ],
)
def test_an_axis_of_the_mesh_divides_the_first_that_it_may(axes: Any, names: Any, spec: Any) -> None:
    assert partition_spec(names, chosen_rules(RULES, None, mesh(**axes))) == PartitionSpec(*spec)


def test_a_persons_rules_go_before_the_models() -> None:
    rules = chosen_rules(RULES, {"mlp": None, "embed": ("fsdp", "tensor")}, mesh(fsdp=2, tensor=4))
    assert partition_spec(("embed", "mlp"), rules) == PartitionSpec(("fsdp", "tensor"), None)


def test_names_that_are_not_known_are_refused() -> None:
    with pytest.raises(
        UsageError, match="no rule divides anything along model of the mesh: rules name data, fsdp, ten"
    ):
        chosen_rules(RULES, None, mesh(fsdp=2, model=4))
    with pytest.raises(UnknownChoice, match="mpl"):
        chosen_rules(RULES, {"mpl": "tensor"}, mesh(tensor=2))
    with pytest.raises(UnknownChoice, match="tensr"):
        chosen_rules(RULES, {"mlp": "tensr"}, mesh(tensor=2))


def test_a_mesh_is_one_of_devices(tmp_path: Path) -> None:
    def layer() -> nnx.Linear:
        return nnx.Linear(4, 6, rngs=nnx.Rngs(0))

    def under_rules() -> None:
        with rules_on("fsdp=8", RULES):  # type: ignore[arg-type]
            raise AssertionError

    for made in (
        lambda: on_mesh(layer, 8, RULES),  # type: ignore[arg-type]
        lambda: on_mesh(layer, mesh(fsdp=4), RULES),
        lambda: load_on_mesh(layer, tmp_path / "w.safetensors", "fsdp=8", RULES),  # type: ignore[arg-type]
        under_rules,
    ):
        said = r"mesh must be a jax\.sharding\.Mesh of devices, .*; got ('fsdp=8'|8|AbstractMesh)$"
        with pytest.raises(UsageError, match=said):
            made()


def test_heads_are_divided_whole_or_not_at_all() -> None:
    kv = by_head(("fsdp", "tensor"), heads=2, or_whole=True)
    own = {"heads": by_head("tensor", heads=8), "kv": kv, "batch": "fsdp"}
    assert repr(own["heads"]) == "by_head('tensor', heads=8)"
    assert repr(kv) == "by_head(('fsdp', 'tensor'), heads=2, or_whole=True)"
    assert chosen_rules(own, None, mesh(fsdp=1, tensor=2))["kv"] == ("fsdp", "tensor")
    assert chosen_rules(own, None, mesh(fsdp=2, tensor=2)) == {"heads": ("tensor",), "kv": (), "batch": ("fsdp",)}
    assert chosen_rules(own, {"kv": "tensor"}, mesh(fsdp=2, tensor=2))["kv"] == ("tensor",)
    with pytest.raises(UsageError, match=r"^kv: 4 devices along tensor do not divide 2 heads.*rules={'kv': None}"):
        chosen_rules(own, {"kv": "tensor"}, mesh(fsdp=1, tensor=4))
    with pytest.raises(UsageError, match=r"^heads \(q and 1 more\): 16 devices along tensor do not divide 8 heads"):
        chosen_rules(own, None, mesh(tensor=16), {"heads": ["q", "o"]})
    assert chosen_rules(own, {"heads": None}, mesh(fsdp=1, tensor=16))["heads"] == ()


def test_a_warning_names_the_heads_that_stay_whole() -> None:
    def made() -> nnx.Linear:
        return nnx.Linear(4, 6, kernel_metadata=logical_axes("embed", "kv"), rngs=nnx.Rngs(0))

    real = jax.make_mesh((2,), ("tensor",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    rules = {"embed": None, "mlp": "tensor", "kv": by_head("tensor", heads=3, or_whole=True)}
    said = r"^kv stays whole on every device \(kernel\): 2 devices along tensor do not divide 3 heads"
    with pytest.warns(UserWarning, match=said):
        placed = on_mesh(made, real, rules)
    assert placed.kernel.get_value().sharding.is_fully_replicated
    assert on_mesh(made, real, rules, given={"kv": None}).kernel.get_value().sharding.is_fully_replicated
    divided = on_mesh(made, real, {**rules, "kv": by_head("tensor", heads=2)})
    assert divided.kernel.get_value().sharding.spec == PartitionSpec(None, "tensor")


class Masked(nnx.Module):
    """A projection that is given a flag, and gives back two things."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(4, 4, kernel_metadata=logical_axes("embed", None), rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None, *, is_doubled: bool) -> tuple[jax.Array, None]:
        x = x if mask is None else x * mask
        return self.linear(x) * (2 if is_doubled else 1), None


def test_what_is_gathered_takes_flags_and_gives_several_things() -> None:
    layer, x = Masked(nnx.Rngs(0)), jnp.arange(8.0).reshape(2, 4)
    real = jax.make_mesh((1,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:1])

    def gradient(layer: Masked, x: jax.Array, mask: jax.Array | None) -> Any:
        return nnx.grad(lambda layer: (gathered(layer)(x, mask, is_doubled=True)[0] ** 2).sum())(layer)

    for mask in (None, jnp.array([1.0, 0.0, 2.0, 1.0])):
        expected = nnx.jit(gradient)(layer, x, mask)
        with rules_on(real, {"batch": "fsdp", "embed": "fsdp"}):
            found = nnx.jit(gradient)(layer, x, mask)
            assert gathered(layer)(x, mask, is_doubled=False)[1] is None
        np.testing.assert_allclose(found.linear.kernel[...], expected.linear.kernel[...], rtol=1e-6)


def test_what_the_mesh_does_not_divide_is_said_all_at_once() -> None:
    one = nnx.Param(jnp.ones((6, 10)), **logical_axes("embed", "mlp"))
    other = nnx.Param(jnp.ones((9,)), **logical_axes("embed"))
    there = mesh(fsdp=2, tensor=4)
    with pytest.raises(WeightsMismatch) as caught:
        shardings_by_rules({"a.kernel": one, "norm": other}, there, chosen_rules(RULES, None, there))
    text = str(caught.value)
    assert "a.kernel (6, 10): axis 1, mlp, of 10 is not divided by tensor of 4 devices; it would be by 2, 5, 10" in text
    assert "norm (9,): axis 0, embed, of 9 is not divided by fsdp of 2 devices; it would be by 3, 9" in text
    assert not undivided("a", (8, 8), NamedSharding(there, PartitionSpec("fsdp", "tensor")))


def test_activations_lie_as_their_names_say_where_a_mesh_is_set_and_nowhere_else() -> None:
    table = nnx.Embed(5, 4, embedding_metadata=logical_axes("vocab", "embed"), rngs=nnx.Rngs(0))
    x = jnp.ones((2, 4))
    assert divided(x, "batch", "embed") is x
    assert gathered(table) is table
    real = jax.make_mesh((1,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
    with rules_on(real, RULES):
        traced = str(jax.make_jaxpr(lambda x: divided(x, "batch", "embed"))(x))
        made = gathered(table)
        rows = made(jnp.array([3]))
    assert "sharding_constraint" in traced
    assert made is not table
    assert (rows == table(jnp.array([3]))).all()


class Dropped(nnx.Module):
    """A projection with a stream of its own."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        names = logical_axes("embed", "classes")
        self.linear = nnx.Linear(4, 4, kernel_metadata=names, bias_metadata=logical_axes("classes"), rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dropout(self.linear(x))


@pytest.mark.parametrize("is_scanned", [False, True])
def test_a_projection_is_gathered_for_its_call_and_its_gradient_is_cut(is_scanned: bool) -> None:
    layers = [Dropped(nnx.Rngs(0)), Dropped(nnx.Rngs(1))]
    called = nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(_gathered) if is_scanned else _gathered

    def gradient(layer: Dropped, x: jax.Array) -> tuple[jax.Array, Any]:
        return nnx.value_and_grad(lambda layer: (called(layer, x) ** 2).sum())(layer)

    def fresh() -> Dropped:
        return stacked(layers) if is_scanned else nnx.clone(layers[0])

    alone, placed, x = fresh(), fresh(), jnp.arange(8.0).reshape(2, 4)
    loss, expected = gradient(alone, x)
    real = jax.make_mesh((2,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    with rules_on(real, {"batch": "fsdp", "embed": "fsdp", "classes": None}):
        kernel = placed.linear.kernel
        axes = (None, "fsdp", None)[-kernel.ndim :]
        kernel.set_value(jax.device_put(kernel[...], NamedSharding(real, PartitionSpec(*axes))))
        found, given = nnx.jit(gradient)(placed, x)
    np.testing.assert_allclose(found, loss, rtol=1e-6)
    np.testing.assert_allclose(given.linear.kernel[...], expected.linear.kernel[...], rtol=1e-5)
    assert (placed.dropout.rngs.count[...] == alone.dropout.rngs.count[...]).all()
    assert (placed.dropout.rngs.count[...] > 0).all()
    assert {part.data.shape[-2:] for part in given.linear.kernel.get_value().addressable_shards} == {(2, 4)}


def _gathered(layer: Dropped, x: jax.Array) -> jax.Array:
    made: jax.Array = gathered(layer)(x)
    return made
