"""A module built from weights equals one that is constructed and then filled, without drawing values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import WeightsMismatch
from port.translation.artifact.filling import check_filled, filled

DRAWN: list[Any] = []


def noted(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32, out_sharding: Any = None) -> jax.Array:
    made = jax.random.normal(key, shape, dtype)
    DRAWN.append(made)
    return made


class Dropping(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(3, 4, kernel_init=noted, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(4, 4, use_bias=False, kernel_init=noted, rngs=rngs) for _ in range(2)])
        self.scales = (2.0, 3.0)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.dropout(self.linear(x))
        for scale, layer in zip(self.scales, self.layers, strict=True):
            x = scale * layer(x)
        return x


def construct() -> Dropping:
    return Dropping(rngs=nnx.Rngs(7))


def values() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    flat = nnx.to_flat_state(nnx.state(construct(), nnx.Param))
    return {".".join(map(str, path)): random.normal(size=each.shape).astype(np.float32) for path, each in flat}


def test_it_computes_what_the_constructed_and_filled_one_does() -> None:
    given, eager = values(), construct()
    flat = nnx.to_flat_state(nnx.state(eager, nnx.Param))
    changed = [(path, jnp.asarray(given[".".join(map(str, path))])) for path, _ in flat]
    nnx.update(eager, nnx.from_flat_state(changed))
    made = filled(construct, given, "net")
    x = jnp.ones((5, 3))
    for _ in range(2):  # the masks of its random streams, too
        np.testing.assert_array_equal(made(x), eager(x))


def test_no_initial_value_is_drawn() -> None:
    given = values()
    DRAWN.clear()
    filled(construct, given, "net")
    assert DRAWN
    assert all(isinstance(each, jax.core.Tracer) for each in DRAWN)


def test_what_has_no_value_is_drawn_as_it_is_constructed() -> None:
    given = values()
    del given["layers.1.kernel"]
    made, eager = filled(construct, given, "net"), construct()
    np.testing.assert_allclose(made.layers[1].kernel[...], eager.layers[1].kernel[...], rtol=1e-6)
    np.testing.assert_array_equal(made.layers[0].kernel[...], given["layers.0.kernel"])


def test_it_shares_no_memory_with_the_values() -> None:
    given = values()
    made = filled(construct, given, "net")
    before = np.array(made.linear.kernel[...])
    given["linear.kernel"][:] = 0
    np.testing.assert_array_equal(made.linear.kernel[...], before)


def test_another_shape_is_refused() -> None:
    given = values() | {"linear.kernel": np.zeros((4, 3), np.float32)}
    with pytest.raises(WeightsMismatch, match=r"net constructs linear.kernel with the shape \(3, 4\)"):
        filled(construct, given, "net")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            {"linear.kernel": (4, 3)},
            r"net constructs linear.kernel with the shape \(3, 4\), and .* have \(4, 3\)",
        ),
        ({"linear.more": (4,)}, "net does not construct linear.more, which is among its weights"),
        ({"linear.kernel": None}, "net constructs linear.kernel, which is not among its weights"),
    ],
)
def test_shapes_alone_are_checked_both_ways(other: dict[str, Any], says: str) -> None:
    shapes = {path: array.shape for path, array in values().items()}
    check_filled(construct, shapes, "net")
    given = {path: shape for path, shape in (shapes | other).items() if shape is not None}
    with pytest.raises(WeightsMismatch, match=says):
        check_filled(construct, given, "net")
