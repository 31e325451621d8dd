"""`port.nn.stacked`: layers of one structure as one, which does under `nnx.scan` what they do one after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.mapping.nnx_guide import weights_filter
from port.nn import PerLayer, load_weights, stacked


class Layer(nnx.Module):
    """Parameters, statistics, dropout, a stream that all layers share, a number, and functions of its own."""

    def __init__(self, rngs: nnx.Rngs, *, share: float = 0.1, index: int = 0, width: int = 5) -> None:
        self.fc = nnx.Linear(5, width, rngs=rngs, kernel_init=nnx.initializers.normal(0.5))
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.drop = nnx.Dropout(0.4, rngs=rngs)
        self.gelu = partial(nnx.gelu, approximate=False)
        self.share, self.index = share, index
        self.deterministic = False
        self.rngs = rngs

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.drop(self.gelu(self.norm(self.fc(x))))
        if not self.deterministic:
            y = y * (jax.random.uniform(self.rngs(), (len(x), 1)) < 1 - self.share) / (1 - self.share)
        return x + y * (self.index + 1)


def layers(count: int = 4, **options: Any) -> list[Layer]:
    rngs = nnx.Rngs(3)
    return [Layer(rngs, share=0.1 * place, index=place, **options) for place in range(count)]


def in_float64(given: list[Layer]) -> list[Layer]:
    """Give layers parameters and statistics of double precision, where no order of sums shows."""
    for layer in given:
        state = nnx.state(layer, nnx.Any(nnx.Param, nnx.BatchStat))
        nnx.update(layer, jax.tree.map(lambda leaf: leaf.astype(jnp.float64), state))
    return given


def scanned(stack: Any, x: jax.Array) -> Any:
    step = nnx.scan(lambda layer, x: layer(x), in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    return step(stack, x)


def one_by_one(given: Any, x: jax.Array) -> Any:
    for layer in given:
        x = layer(x)
    return x


X = jax.random.normal(jax.random.key(7), (6, 5))


@jax.enable_x64(True)
@pytest.mark.sweep
def test_it_does_what_the_layers_do_and_leaves_what_they_leave() -> None:
    whole, stack = in_float64(layers()), stacked(in_float64(layers()))
    x = X.astype(jnp.float64)
    for layer in [*whole, stack]:
        layer.set_attributes(deterministic=True)

    def loss(run: Any, model: Any) -> Any:
        return jnp.sum(run(model, x) ** 2)

    one, gradients = nnx.value_and_grad(partial(loss, one_by_one))(nnx.List(whole))
    other, of_stack = nnx.value_and_grad(partial(loss, scanned))(stack)
    np.testing.assert_allclose(one, other, rtol=1e-12)
    for place, layer in enumerate(whole):
        np.testing.assert_allclose(gradients[place].fc.kernel[...], of_stack.fc.kernel[place], rtol=1e-10)
        np.testing.assert_allclose(layer.norm.mean[...], stack.norm.mean[place], rtol=1e-12)
    assert not np.allclose(stack.norm.mean[...], 0)
    # A stack of the layers in another order is another model.
    turned = stacked(in_float64(layers())[::-1])
    turned.set_attributes(deterministic=True)
    assert not np.allclose(scanned(turned, x), scanned(stack, x), rtol=1e-3)


def test_each_layer_draws_with_a_key_of_its_own_also_from_a_stream_that_all_share() -> None:
    stack = stacked(layers())
    for stream in (stack.drop.rngs, stack.rngs["default"]):
        keys = jax.random.key_data(stream.key[...])
        assert len({tuple(key.tolist()) for key in keys}) == 4
    before = scanned(stack, X)
    assert stack.rngs["default"].count[...].tolist() == [1, 1, 1, 1]
    assert not np.allclose(before, scanned(stack, X))


def test_numbers_that_differ_are_the_layers_own_and_in_the_precision_of_the_layers() -> None:
    stack = stacked(layers())
    assert isinstance(stack.share, PerLayer)
    np.testing.assert_allclose(stack.share[...], [0.0, 0.1, 0.2, 0.3], rtol=1e-6)
    assert stack.index[...].tolist() == [0, 1, 2, 3]
    assert not isinstance(stack.drop.rate, PerLayer)  # the same in all
    half = nnx.Linear(2, 2, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    other = nnx.clone(half)
    half.scale, other.scale = 0.5, 0.25
    assert stacked([half, other]).scale[...].dtype == jnp.bfloat16


def test_a_comparison_that_is_alike_in_all_layers_is_a_condition() -> None:
    stack: Any = stacked([Layer(nnx.Rngs(0), share=share) for share in (0.25, 0.5)])
    found = {}

    def step(layer: Any, x: jax.Array) -> jax.Array:
        for text in ("> 0", ">= 0.25", "== 0", "!= 0", "< 0.5", "<= x"):
            found[text] = eval(f"layer.share {text}", {"layer": layer, "x": x})
        return x + (layer.share < 0.5)

    scanned_by = nnx.scan(step, in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    assert scanned_by(stack, jnp.zeros(())) == 1  # the first alone is below a half
    assert [found[text] for text in ("> 0", ">= 0.25", "== 0", "!= 0")] == [True, True, False, True]
    assert isinstance(found["< 0.5"], jax.Array) and isinstance(found["<= x"], jax.Array)
    inner = [[Layer(nnx.Rngs(0), share=share) for share in shares] for shares in ((0.1, 0.2), (0.1, 0.3))]
    with pytest.raises(UsageError, match=r"share is \(0.1, 0.2\), \(0.1, 0.3\) in inner stacks"):
        stacked([stacked(layers) for layers in inner])


def test_a_stack_is_made_of_shapes_too_and_of_one_layer() -> None:
    abstract = nnx.eval_shape(lambda: stacked(layers()))
    assert abstract.fc.kernel.shape == (4, 5, 5)
    assert stacked(nnx.List(layers(1))).fc.kernel.shape == (1, 5, 5)
    assert stacked(nnx.Sequential(*layers(2))).fc.kernel.shape == (2, 5, 5)


class Other(Layer):
    """The same by another name."""


def differing() -> dict[str, tuple[Any, str]]:
    rngs = nnx.Rngs(0)
    odd = Layer(rngs)
    odd.gelu = partial(nnx.gelu, approximate=True)
    bare = Layer(rngs)
    bare.fc.bias = None
    switched = Layer(rngs)
    switched.deterministic = True
    tied = layers(2)
    tied[1].fc.kernel = tied[0].fc.kernel
    return {
        "none": ([], "needs at least one layer"),
        "class": ([Layer(rngs), Other(rngs)], "the layer is Layer, Other"),
        "shape": ([Layer(rngs), Layer(rngs, width=1)], r"fc.kernel is Param float32\[5, 5\], Param float32\[5, 1\]"),
        "function": ([Layer(rngs), odd], "gelu is functools.partial"),
        "part": ([Layer(rngs), bare], "fc.bias"),
        "switch": ([Layer(rngs), switched], "deterministic is False, True"),
        "tied": (tied, "fc.kernel belongs to several layers"),
    }


@pytest.mark.parametrize("name", differing())
def test_layers_that_differ_by_more_are_refused_in_words(name: str) -> None:
    given, said = differing()[name]
    with pytest.raises(UsageError, match=said):
        stacked(given)


def test_a_file_of_weights_has_no_numbers_of_the_layers(tmp_path: Any) -> None:
    from safetensors.numpy import save_file

    stack = stacked(layers())
    paths = [".".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(stack, nnx.Not(nnx.RngState)))]
    assert {"share", "index"} < set(paths)
    held = {leaf: value + 1 for leaf, value in nnx_arrays(stack).items()}
    save_file(held, tmp_path / "weights.safetensors")
    load_weights(stack, tmp_path / "weights.safetensors")
    for name, value in nnx_arrays(stack).items():
        np.testing.assert_array_equal(value, held[name])
    assert isinstance(stack.index, PerLayer)
    assert stack.index[...].tolist() == [0, 1, 2, 3]


def nnx_arrays(model: Any) -> dict[str, np.ndarray]:
    flat = nnx.to_flat_state(nnx.state(model, weights_filter()))
    return {".".join(map(str, path)): np.asarray(variable[...]) for path, variable in flat}
