"""port.random against jax.random and nnx.Dropout: the same bits, or the test fails.

Next to each equality stands a planted fault, something nearly right that has to come out different: a comparison that
cannot fail would prove nothing.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from port import random
from port.errors import UsageError
from port.random import shared_dropout

SEEDS = [0, 1, 2**31, 2**32 - 1, 2**32 + 5, 2**63 - 1, -1, -(2**32) - 7, -(2**63)]
JAX_KEY = {False: jax.random.key(7)}
with jax.enable_x64(True):
    JAX_KEY[True] = jax.random.key(7)


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request: pytest.FixtureRequest) -> Iterator[bool]:
    with jax.enable_x64(request.param):
        yield request.param


def to_torch(array: Any) -> Tensor:
    """The same bits as a tensor; NumPy has no bfloat16 that PyTorch would take."""
    array = np.array(array)
    if array.dtype == jnp.bfloat16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def same(ours: Tensor, theirs: Any) -> bool:
    """Equal dtypes, shapes and bits; 0.0 and −0.0 are different here."""
    theirs = to_torch(theirs)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    as_bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[ours.dtype.itemsize]
    return torch.equal(ours.view(as_bits), theirs.view(as_bits))


def key_data(key: Any) -> Any:
    return jax.random.key_data(key)


# --- keys


@pytest.mark.parametrize("seed", SEEDS)
def test_key_is_jaxs(seed: int, x64: bool) -> None:
    assert same(random.key(seed, x64=x64), key_data(jax.random.key(seed)))
    assert not same(random.key(seed ^ 1, x64=x64), key_data(jax.random.key(seed)))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), x64=st.booleans())
def test_key_is_jaxs_for_any_seed(seed: int, x64: bool) -> None:
    with jax.enable_x64(x64):
        theirs = key_data(jax.random.key(seed))
    assert same(random.key(seed, x64=x64), theirs)
    fits = 0 <= seed < 2**32
    assert same(random.key(seed, x64=not x64), theirs) == fits, "only small seeds mean the same with x64 on and off"


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_beyond_int64_is_refused_as_in_jax(seed: int) -> None:
    with pytest.raises(OverflowError):
        jax.random.key(seed)
    with pytest.raises(UsageError, match=str(seed)):
        random.key(seed)


@pytest.mark.parametrize("seed", [1.0, "1", np.int64(1)])
def test_a_seed_that_is_no_int_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="a seed is an int"):
        random.key(seed)


@pytest.mark.parametrize("data", [0, 1, 2**31, 2**32 - 1])
def test_fold_in_is_jaxs(data: int, x64: bool) -> None:
    theirs = key_data(jax.random.fold_in(JAX_KEY[x64], data))
    assert same(random.fold_in(random.key(7), data), theirs)
    assert not same(random.fold_in(random.key(7), data ^ 1), theirs)
    assert not same(random.fold_in(random.key(8), data), theirs)


@pytest.mark.parametrize(("dtype", "data"), [("int32", -1), ("uint32", 2**32 - 2), ("int64", -3), ("uint8", 200)])
def test_fold_in_of_a_tensor_wraps_as_in_jax(dtype: str, data: int, x64: bool) -> None:
    number = np.array(data, dtype)
    theirs = key_data(jax.random.fold_in(JAX_KEY[x64], number))
    assert same(random.fold_in(random.key(7), torch.from_numpy(number)), theirs)
    assert not same(random.fold_in(random.key(7), torch.from_numpy(number) * 0), theirs)


@pytest.mark.parametrize("data", [-1, 2**32, 1.5, torch.tensor(1.5), torch.tensor([1])])
def test_fold_in_refuses_what_is_not_one_integer(data: Any) -> None:
    with pytest.raises(UsageError, match="fold_in takes one int"):
        random.fold_in(random.key(7), data)


@pytest.mark.parametrize("num", [0, 1, 2, 5, (2, 3), ()])
def test_split_is_jaxs(num: int | tuple[int, ...], x64: bool) -> None:
    theirs = key_data(jax.random.split(JAX_KEY[x64], num))
    assert same(random.split(random.key(7), num), theirs)
    if theirs.size:
        assert not same(random.split(random.key(8), num), theirs)


def test_dropout_key_is_a_steps_key(x64: bool) -> None:
    seed = -5  # one that means another key with x64 on
    theirs = key_data(jax.random.fold_in(jax.random.key(seed), 12))
    assert same(random.dropout_key(seed, 12, x64=x64), theirs)
    assert not same(random.dropout_key(seed, 12, x64=not x64), theirs)
    assert not same(random.dropout_key(seed, 13, x64=x64), theirs)


@pytest.mark.parametrize("wrong", [random.split(random.key(0), 3), torch.tensor([0, 1]), random.key(0)[0]])
def test_what_is_no_key_is_refused(wrong: Tensor) -> None:
    for draw in (random.split, random.bits, random.uniform, random.bernoulli):
        with pytest.raises(UsageError, match="a key has shape"):
            draw(wrong)


# --- draws


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (2, 3, 5)], ids=str)
def test_bits_are_jaxs_in_each_shape(shape: tuple[int, ...], x64: bool) -> None:
    theirs = jax.random.bits(JAX_KEY[x64], shape)
    assert same(random.bits(random.key(7), shape, x64=x64), theirs)
    assert not same(random.bits(random.key(7), shape, x64=not x64), theirs)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_are_jaxs_in_each_dtype(dtype: str) -> None:
    with jax.enable_x64(True):
        theirs = jax.random.bits(JAX_KEY[True], (5, 33), dtype)
    assert same(random.bits(random.key(7), (5, 33), getattr(torch, dtype)), theirs)
    assert not same(random.bits(random.key(8), (5, 33), getattr(torch, dtype)), theirs)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_is_jaxs_in_each_dtype(dtype: str) -> None:
    key, torch_dtype, with_x64 = random.key(7), getattr(torch, dtype), dtype == "float64"
    for low, high in ((0.0, 1.0), (-1.0, 3.0), (0.1, 0.9), (-0.7, 0.7)):
        with jax.enable_x64(with_x64):
            theirs = jax.random.uniform(JAX_KEY[with_x64], (9, 333), dtype, low, high)
        assert same(random.uniform(key, (9, 333), torch_dtype, low, high), theirs)
        assert not same(random.uniform(random.key(8), (9, 333), torch_dtype, low, high), theirs)
    # As jax's source has it, which XLA compiles to a single rounding, except in bfloat16.
    bounds = torch.tensor([low, high], dtype=torch_dtype)
    rounded_twice = random.uniform(key, (9, 333), torch_dtype) * (bounds[1] - bounds[0]) + bounds[0]
    assert same(rounded_twice, theirs) == (dtype == "bfloat16")


def test_uniforms_default_dtype_is_jaxs(x64: bool) -> None:
    theirs = jax.random.uniform(JAX_KEY[x64])
    assert same(random.uniform(random.key(7), x64=x64), theirs)
    assert not same(random.uniform(random.key(7), x64=not x64), theirs)


@pytest.mark.usefixtures("optimized")
def test_uniform_takes_bounds_as_tensors() -> None:
    low, high = np.array([[0.1], [2.0]], np.float32), np.float32(3.3)
    theirs = jax.random.uniform(JAX_KEY[False], (2, 9), jnp.float32, low, high)
    ours = random.uniform(random.key(7), (2, 9), torch.float32, torch.from_numpy(low), torch.tensor(high))
    assert same(ours, theirs)
    assert not same(random.uniform(random.key(7), (2, 9), torch.float32, 0.1, float(high)), theirs)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_bernoulli_is_jaxs(p: float, x64: bool) -> None:
    key, shape = random.key(7), (64, 9)
    theirs = jax.random.bernoulli(JAX_KEY[x64], p, shape)
    assert same(random.bernoulli(key, p, shape, x64=x64), theirs)
    if 0 < p < 1:
        assert not same(random.bernoulli(key, p, shape, x64=not x64), theirs), "x64 is part of a mask's definition"
        assert not same(random.bernoulli(random.key(8), p, shape, x64=x64), theirs)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), p=st.floats(0, 1), x64=st.booleans())
def test_bernoulli_is_jaxs_for_any_seed(seed: int, p: float, x64: bool) -> None:
    with jax.enable_x64(x64):
        theirs = jax.random.bernoulli(jax.random.key(seed), p, (41,))
    assert same(random.bernoulli(random.key(seed, x64=x64), p, (41,), x64=x64), theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bernoulli_draws_in_the_dtype_of_p(dtype: str) -> None:
    p = np.linspace(0.05, 0.95, 40).reshape(1, 40)
    torch_p = torch.from_numpy(p).to(getattr(torch, dtype))
    with jax.enable_x64(dtype == "float64"):
        theirs = jax.random.bernoulli(JAX_KEY[dtype == "float64"], jnp.asarray(p, dtype), (30, 40))
    assert same(random.bernoulli(random.key(7), torch_p, (30, 40)), theirs)
    assert same(random.bernoulli(random.key(7), torch_p.expand(30, 40)), theirs)
    other = torch.float32 if dtype == "float64" else torch.float64
    assert not same(random.bernoulli(random.key(7), torch_p.to(other), (30, 40)), theirs)


def test_p_has_to_be_floating_and_to_fit_the_shape() -> None:
    for p in (1, torch.tensor(1), "0.5"):
        with pytest.raises(UsageError, match="p is a float"):
            random.bernoulli(random.key(7), p)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="size"):
        random.bernoulli(random.key(7), torch.rand(3, 1), (2,))


def test_other_dtypes_and_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="uint8, uint16, uint32 or uint64"):
        random.bits(random.key(7), (2,), torch.int32)
    with pytest.raises(UsageError, match="uniform draws"):
        random.uniform(random.key(7), (2,), torch.int32)
    with pytest.raises(UsageError, match=r"fewer than 2\*\*31"):
        random.bits(random.key(7), (2**16, 2**15))


def test_these_bits_never_change() -> None:
    """Written down from jax 0.10.2: if a jax, or this module, draws others, old records cannot be reproduced."""
    key = random.key(42)
    known = {
        "split": [[1832780943, 270669613], [64467757, 2916123636]],
        "fold_in": [64467757, 2916123636],
        "uint8": [162, 217, 249],
        "uint32": [2098992034, 2919706841, 2646866425],
        "uint64": [7871734211187709741, 276886910877598708, 10591095138341673235],
    }
    ours = {
        "split": random.split(key).tolist(),
        "fold_in": random.fold_in(key, 1).tolist(),
        "uint8": random.bits(key, (3,), torch.uint8).tolist(),
        "uint32": random.bits(key, (3,)).tolist(),
        "uint64": random.bits(key, (3,), x64=True).tolist(),
    }
    with jax.enable_x64(True):
        jax_key = jax.random.key(42)
        theirs = {
            "split": key_data(jax.random.split(jax_key)).tolist(),
            "fold_in": key_data(jax.random.fold_in(jax_key, 1)).tolist(),
            "uint8": jax.random.bits(jax_key, (3,), "uint8").tolist(),
            "uint32": jax.random.bits(jax_key, (3,), "uint32").tolist(),
            "uint64": jax.random.bits(jax_key, (3,)).tolist(),
        }
    assert ours == known
    assert theirs == known


def test_draws_are_vectorised_by_vmap() -> None:
    keys = random.split(random.key(7), 4)
    drawn = torch.vmap(lambda key: random.bernoulli(key, 0.5, (9,)))(keys)
    assert torch.equal(drawn, torch.stack([random.bernoulli(key, 0.5, (9,)) for key in keys]))
    folded = torch.vmap(lambda step: random.fold_in(keys[0], step))(torch.arange(4))
    assert torch.equal(folded, torch.stack([random.fold_in(keys[0], step) for step in range(4)]))


# --- shared_dropout

SEED, STEP = 3, 5


def layer_key(layer: int) -> Any:
    """As a JAX training step makes it."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), STEP), layer)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Nothing that dropout would leave as it is: no zeros."""
    return (1 + np.random.default_rng(0).random(shape)).astype(jnp.dtype(dtype))


def shared(module: nn.Module, x: Any, step: int = STEP, **options: Any) -> Tensor:
    with shared_dropout(module, random.dropout_key(SEED, step), **options):
        return module(to_torch(x))


@partial(jax.jit, static_argnames=("rate", "broadcast_dims"))
def flax_dropout(x: Any, rate: float, key: Any, broadcast_dims: tuple[int, ...] = ()) -> jax.Array:
    return nnx.Dropout(rate, broadcast_dims=broadcast_dims)(x, rngs=key)


@pytest.mark.parametrize(
    ("dtype", "with_x64", "rate"),
    [
        ("float32", False, 0.1),
        ("float32", True, 0.3),
        ("float64", True, 0.1),
        ("bfloat16", False, 0.1),
        ("float16", False, 0.3),
    ],
)
def test_W25_dropout_is_nnx_dropout_forward_and_backward(dtype: str, with_x64: bool, rate: float) -> None:
    x, g = numbers(6, 50, dtype=dtype), numbers(6, 50, dtype=dtype)[::-1].copy()
    with jax.enable_x64(with_x64):
        y, backward = jax.vjp(lambda x: flax_dropout(x, rate, layer_key(0)), x)
        x_grad = backward(g)[0]

    ours = to_torch(x).requires_grad_()
    with shared_dropout(module := nn.Dropout(rate), random.dropout_key(SEED, STEP), x64=with_x64):
        out = module(ours)
    out.backward(to_torch(g))
    assert ours.grad is not None
    assert same(out.detach(), y)
    assert same(ours.grad, x_grad)
    assert not same(shared(nn.Dropout(rate), x, x64=not with_x64), y)
    assert not same(shared(nn.Dropout(rate), x, step=STEP + 1, x64=with_x64), y)


def test_dropout_scales_as_xla_does() -> None:
    """The fault planted here is the division as it is written in flax: XLA compiles another."""
    x = numbers(6, 50)
    theirs = flax_dropout(x, 0.1, layer_key(0))
    ours = shared(nn.Dropout(0.1), x)
    divided = torch.where(ours != 0, to_torch(x) / torch.tensor(0.9), 0.0)
    assert same(ours, theirs)
    assert not same(divided, theirs)


def test_x64_follows_the_input_unless_it_is_given() -> None:
    for dtype, followed in (("float32", False), ("float64", True)):
        x = numbers(6, 50, dtype=dtype)
        out = shared(nn.Dropout(0.4), x)
        assert torch.equal(out, shared(nn.Dropout(0.4), x, x64=followed))
        assert not torch.equal(out, shared(nn.Dropout(0.4), x, x64=not followed))


def test_layers_are_numbered_in_the_order_of_named_modules() -> None:
    twice = nn.Dropout(0.3)
    quiet = nn.AlphaDropout(0.5).eval()  # takes no number
    model = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Dropout(0.1)), quiet, twice, nn.ReLU(), nn.Dropout1d(0.5), twice)
    x = numbers(6, 5, 7)

    def flax(layers: list[int]) -> jax.Array:
        first, second, third = layers
        y = flax_dropout(x, 0.1, layer_key(first))
        y = flax_dropout(y, 0.3, layer_key(second))
        y = flax_dropout(y, 0.5, layer_key(third), broadcast_dims=(2,))
        return flax_dropout(y, 0.3, jax.random.fold_in(layer_key(second), 1))

    assert same(shared(model, x), flax([0, 1, 2]))
    assert not same(shared(model, x), flax([1, 0, 2]))
    assert not same(shared(model, x), flax([0, 1, 3]))


@pytest.mark.parametrize(
    ("kind", "shape", "has_batch"),
    [
        (nn.Dropout1d, (20, 6, 4), True),
        (nn.Dropout1d, (60, 4), False),
        (nn.Dropout2d, (20, 6, 4, 3), True),
        (nn.Dropout2d, (20, 6, 4), True),
        (nn.Dropout3d, (20, 6, 4, 3, 2), True),
        (nn.Dropout3d, (60, 4, 3, 2), False),
    ],
)
def test_whole_channels_are_nnx_dropouts_with_broadcast_dims(
    kind: type[nn.Module], shape: tuple[int, ...], has_batch: bool
) -> None:
    x = numbers(*shape)
    channel = 1 if has_batch else 0
    spatial = tuple(range(channel, len(shape) - 1))  # in flax's layout
    theirs = flax_dropout(np.moveaxis(x, channel, -1), 0.3, layer_key(0), broadcast_dims=spatial)
    single = shared(nn.Dropout(0.3), x, channels_last=has_batch).movedim(channel, -1)
    ours = shared(kind(0.3), x).movedim(channel, -1)
    assert same(ours, theirs)
    assert not same(single, theirs), "a mask of single elements"
    assert same(shared(kind(0.3), x, channels_last=True).movedim(channel, -1), theirs), "no other mask for channels"


@pytest.mark.parametrize(
    ("kind", "shape"), [(nn.Dropout1d, (2, 2, 2, 2)), (nn.Dropout2d, (2, 2)), (nn.Dropout3d, (2,))]
)
def test_channel_dropouts_refuse_other_ranks(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=rf"{kind.__name__} takes \d or \d dimensions"):
        shared(kind(), numbers(*shape))


@pytest.mark.parametrize("shape", [(3, 4, 5, 6), (30, 4)])
def test_channels_last_draws_in_flaxs_layout(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    channel = 1
    theirs = flax_dropout(np.moveaxis(x, channel, -1), 0.3, layer_key(0))
    assert same(shared(nn.Dropout(0.3), x, channels_last=True).movedim(channel, -1), theirs)
    same_without = same(shared(nn.Dropout(0.3), x).movedim(channel, -1), theirs)
    assert same_without == (len(shape) == 2), "two dimensions have the same order on both sides"


def test_a_module_that_draws_again_draws_another_mask() -> None:
    x, module = numbers(6, 50), nn.Dropout(0.4)
    with shared_dropout(module, random.dropout_key(SEED, STEP)):
        outs = []
        for _ in range(3):
            outs.append(module(to_torch(x)))
            module.eval()(to_torch(x))  # draws nothing, and does not count
            module.train()
    theirs = [flax_dropout(x, 0.4, layer_key(0))]
    theirs += [flax_dropout(x, 0.4, jax.random.fold_in(layer_key(0), n)) for n in (1, 2)]
    assert [same(ours, theirs[n]) for n, ours in enumerate(outs)] == [True] * 3
    assert not same(outs[1], theirs[0])
    assert not same(outs[2], theirs[1])
    assert same(shared(module, x), theirs[0]), "a new context counts from the start"


def test_eval_mode_and_rate_0_change_nothing() -> None:
    x = to_torch(numbers(6, 50))
    for module in (nn.Dropout(0.4).eval(), nn.Dropout1d(0.4).eval(), nn.Dropout(0.0), nn.Dropout(0)):
        with shared_dropout(module, random.key(0)):
            assert torch.equal(module(x), x)
    with shared_dropout(module := nn.Dropout(0.4), random.key(0)):
        assert not torch.equal(module(x), x)


def test_rate_1_keeps_nothing_and_its_gradient_is_0() -> None:
    x = torch.tensor([1.0, -1.0, torch.inf, torch.nan], requires_grad=True)
    with shared_dropout(module := nn.Dropout(1), random.key(0)):
        out = module(x)
    out.sum().backward()
    assert x.grad is not None
    y, backward = jax.vjp(lambda x: nnx.Dropout(1.0)(x, rngs=jax.random.key(0)), x.detach().numpy())
    assert same(out.detach(), y)
    assert same(x.grad, backward(y + 1)[0])


def test_inplace_writes_into_the_input() -> None:
    x = numbers(6, 50)
    leaf = to_torch(x).requires_grad_()
    hidden = leaf * 2
    with shared_dropout(module := nn.Dropout(0.4, inplace=True), random.dropout_key(SEED, STEP)):
        out = module(hidden)
    out.sum().backward()
    expected = flax_dropout(x * 2, 0.4, layer_key(0))
    assert out is hidden
    assert same(out.detach(), expected)
    assert leaf.grad is not None
    assert same(leaf.grad != 0, expected != 0)
    assert not same(to_torch(x * 2), expected)


def test_pytorchs_generator_is_left_alone() -> None:
    model, x = nn.Sequential(nn.Dropout(), nn.Dropout2d()), to_torch(numbers(3, 4, 5, 6))
    before = torch.get_rng_state()
    with shared_dropout(model, random.key(0)):
        model(x)
    assert torch.equal(torch.get_rng_state(), before)
    model(x)
    assert not torch.equal(torch.get_rng_state(), before)


def test_the_model_is_restored_after_an_exception() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Dropout2d())
    before = [dict(vars(module)) for module in model.modules()]
    with pytest.raises(ZeroDivisionError), shared_dropout(model, random.key(0)):
        assert [dict(vars(module)) for module in model.modules()] != before
        raise ZeroDivisionError
    assert [dict(vars(module)) for module in model.modules()] == before


def test_nested_contexts_restore_the_outer_one() -> None:
    x, module = numbers(6, 50), nn.Dropout(0.4)
    with shared_dropout(module, random.dropout_key(SEED, STEP)):
        assert same(module(to_torch(x)), flax_dropout(x, 0.4, layer_key(0)))
        with shared_dropout(module, random.key(99)):
            assert same(module(to_torch(x)), flax_dropout(x, 0.4, jax.random.fold_in(jax.random.key(99), 0)))
        assert same(module(to_torch(x)), flax_dropout(x, 0.4, jax.random.fold_in(layer_key(0), 1)))
    assert "forward" not in vars(module)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_made_within_is_a_stock_model(copied: Callable[[nn.Module], nn.Module]) -> None:
    x, model = to_torch(numbers(6, 50)), nn.Sequential(nn.Dropout())
    with shared_dropout(model, random.key(0)):
        clone = copied(model)
        ours = model(x)
    torch.manual_seed(0)
    first = clone(x)
    torch.manual_seed(0)
    assert torch.equal(first, model(x)), "PyTorch's own mask, on the copy as on the original"
    assert not torch.equal(first, ours)
    assert torch.equal(clone.eval()(x), x), "and by the copy's own mode"


class Noisy(nn.Dropout):
    def forward(self, input: Tensor) -> Tensor:
        return input + torch.rand_like(input)


class Renamed(nn.Dropout):
    """A subclass that computes what Dropout computes."""


@pytest.mark.parametrize(
    "other",
    [
        nn.AlphaDropout(0.5),
        nn.FeatureAlphaDropout(0.5),
        Noisy(0.5),
        nn.MultiheadAttention(4, 2, dropout=0.5),
        nn.LSTM(4, 4, num_layers=2, dropout=0.5),
    ],
    ids=lambda module: type(module).__name__,
)
def test_dropouts_that_cannot_be_shared_are_refused_where_they_drop(other: Any) -> None:
    model = nn.Sequential(nn.Dropout(), other)
    refused = pytest.raises(UsageError, match=rf"1 \({type(other).__name__}\)")
    with refused, shared_dropout(model, random.key(0)):
        pass
    assert "forward" not in vars(model[0])
    other.eval()
    with shared_dropout(model, random.key(0)):
        pass
    other.train()
    setattr(other, "p" if hasattr(other, "p") else "dropout", 0.0)
    with shared_dropout(model, random.key(0)):
        pass


def test_what_computes_as_the_four_do_is_shared() -> None:
    x = numbers(6, 50)
    assert same(shared(Renamed(0.4), x), flax_dropout(x, 0.4, layer_key(0)))
    assert not same(shared(Renamed(0.4), x), flax_dropout(x, 0.4, layer_key(1)))
    single = nn.LSTM(4, 4)
    single.dropout = 0.5  # drops between layers, of which there is one
    with shared_dropout(single, random.key(0)):
        pass
