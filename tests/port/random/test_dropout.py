"""shared_dropout against nnx.Dropout: the same bits, forward and backward, or the test fails.

Next to each equality stands a planted fault, something nearly right that has to come out different: a comparison that
cannot fail would prove nothing.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import Tensor, nn

from port import random
from port.errors import UsageError
from port.random import shared_dropout

Same = Callable[[Tensor, Any], bool]
ToTorch = Callable[[Any], Tensor]
Shared = Callable[..., Tensor]
SEED, STEP = 3, 5


def layer_key(layer: int) -> Any:
    """As a JAX training step makes it."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), STEP), layer)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Nothing that dropout would leave as it is: no zeros."""
    return (1 + np.random.default_rng(0).random(shape)).astype(jnp.dtype(dtype))


@pytest.fixture
def shared(to_torch: ToTorch) -> Shared:
    def run(module: nn.Module, x: Any, step: int = STEP, **options: Any) -> Tensor:
        with shared_dropout(module, random.dropout_key(SEED, step), **options):
            return module(to_torch(x))

    return run


@partial(jax.jit, static_argnames=("rate", "broadcast_dims"))
def flax_dropout(x: Any, rate: float, key: Any, broadcast_dims: tuple[int, ...] = ()) -> jax.Array:
    return nnx.Dropout(rate, broadcast_dims=broadcast_dims)(x, rngs=key)


def test_dropout_key_is_a_steps_key(x64: bool, same: Same) -> None:
    seed = -5  # one that means another key with x64 on
    theirs = jax.random.key_data(jax.random.fold_in(jax.random.key(seed), 12))
    assert same(random.dropout_key(seed, 12, x64=x64), theirs)
    assert not same(random.dropout_key(seed, 12, x64=not x64), theirs)
    assert not same(random.dropout_key(seed, 13, x64=x64), theirs)


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
def test_W25_dropout_is_nnx_dropout_forward_and_backward(
    dtype: str, with_x64: bool, rate: float, same: Same, to_torch: ToTorch, shared: Shared
) -> None:
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


def test_dropout_scales_as_xla_does(same: Same, to_torch: ToTorch, shared: Shared) -> None:
    """The fault planted here is the division as it is written in flax: XLA compiles another."""
    x = numbers(6, 50)
    theirs = flax_dropout(x, 0.1, layer_key(0))
    ours = shared(nn.Dropout(0.1), x)
    divided = torch.where(ours != 0, to_torch(x) / torch.tensor(0.9), 0.0)
    assert same(ours, theirs)
    assert not same(divided, theirs)


def test_x64_follows_the_input_unless_it_is_given(shared: Shared) -> None:
    for dtype, followed in (("float32", False), ("float64", True)):
        x = numbers(6, 50, dtype=dtype)
        out = shared(nn.Dropout(0.4), x)
        assert torch.equal(out, shared(nn.Dropout(0.4), x, x64=followed))
        assert not torch.equal(out, shared(nn.Dropout(0.4), x, x64=not followed))


def test_layers_are_numbered_in_the_order_of_named_modules(same: Same, shared: Shared) -> None:
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
    kind: type[nn.Module], shape: tuple[int, ...], has_batch: bool, same: Same, shared: Shared
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
def test_channel_dropouts_refuse_other_ranks(kind: type[nn.Module], shape: tuple[int, ...], shared: Shared) -> None:
    with pytest.raises(UsageError, match=rf"{kind.__name__} takes \d or \d dimensions"):
        shared(kind(), numbers(*shape))


@pytest.mark.parametrize("shape", [(3, 4, 5, 6), (30, 4)])
def test_channels_last_draws_in_flaxs_layout(shape: tuple[int, ...], same: Same, shared: Shared) -> None:
    x = numbers(*shape)
    channel = 1
    theirs = flax_dropout(np.moveaxis(x, channel, -1), 0.3, layer_key(0))
    assert same(shared(nn.Dropout(0.3), x, channels_last=True).movedim(channel, -1), theirs)
    same_without = same(shared(nn.Dropout(0.3), x).movedim(channel, -1), theirs)
    assert same_without == (len(shape) == 2), "two dimensions have the same order on both sides"


def test_a_module_that_draws_again_draws_another_mask(same: Same, to_torch: ToTorch, shared: Shared) -> None:
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


def test_eval_mode_and_rate_0_change_nothing(to_torch: ToTorch) -> None:
    x = to_torch(numbers(6, 50))
    for module in (nn.Dropout(0.4).eval(), nn.Dropout1d(0.4).eval(), nn.Dropout(0.0), nn.Dropout(0)):
        with shared_dropout(module, random.key(0)):
            assert torch.equal(module(x), x)
    with shared_dropout(module := nn.Dropout(0.4), random.key(0)):
        assert not torch.equal(module(x), x)


def test_rate_1_keeps_nothing_and_its_gradient_is_0(same: Same) -> None:
    x = torch.tensor([1.0, -1.0, torch.inf, torch.nan], requires_grad=True)
    with shared_dropout(module := nn.Dropout(1), random.key(0)):
        out = module(x)
    out.sum().backward()
    assert x.grad is not None
    y, backward = jax.vjp(lambda x: nnx.Dropout(1.0)(x, rngs=jax.random.key(0)), x.detach().numpy())
    assert same(out.detach(), y)
    assert same(x.grad, backward(y + 1)[0])


def test_inplace_writes_into_the_input(same: Same, to_torch: ToTorch) -> None:
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


def test_pytorchs_generator_is_left_alone(to_torch: ToTorch) -> None:
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


def test_nested_contexts_restore_the_outer_one(same: Same, to_torch: ToTorch) -> None:
    x, module = numbers(6, 50), nn.Dropout(0.4)
    with shared_dropout(module, random.dropout_key(SEED, STEP)):
        assert same(module(to_torch(x)), flax_dropout(x, 0.4, layer_key(0)))
        with shared_dropout(module, random.key(99)):
            assert same(module(to_torch(x)), flax_dropout(x, 0.4, jax.random.fold_in(jax.random.key(99), 0)))
        assert same(module(to_torch(x)), flax_dropout(x, 0.4, jax.random.fold_in(layer_key(0), 1)))
    assert "forward" not in vars(module)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_made_within_is_a_stock_model(copied: Callable[[nn.Module], nn.Module], to_torch: ToTorch) -> None:
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


def test_what_computes_as_the_four_do_is_shared(same: Same, shared: Shared) -> None:
    x = numbers(6, 50)
    assert same(shared(Renamed(0.4), x), flax_dropout(x, 0.4, layer_key(0)))
    assert not same(shared(Renamed(0.4), x), flax_dropout(x, 0.4, layer_key(1)))
    single = nn.LSTM(4, 4)
    single.dropout = 0.5  # drops between layers, of which there is one
    with shared_dropout(single, random.key(0)):
        pass
