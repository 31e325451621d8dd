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
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from port import random
from port.errors import UsageError
from port.nn.dropout import alpha_dropout
from port.random import shared_dropout

Same = Callable[[Tensor, Any], bool]
ToTorch = Callable[[Any], Tensor]
Shared = Callable[..., Tensor]
SEED, STEP = 3, 5


def draw_key(draw: int) -> Any:
    """As a JAX training step makes it."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), STEP), draw)


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
        y, backward = jax.vjp(lambda x: flax_dropout(x, rate, draw_key(0)), x)
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
    theirs = flax_dropout(x, 0.1, draw_key(0))
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


def test_draws_are_numbered_in_the_order_of_the_calls(same: Same, shared: Shared) -> None:
    twice = nn.Dropout(0.3)
    quiet = nn.AlphaDropout(0.5).eval()  # takes no number, as the rates 0 and 1 do
    model = nn.Sequential(
        nn.Dropout(0.0), nn.Sequential(nn.ReLU(), twice), quiet, nn.Dropout(0.1), nn.Dropout1d(0.5), twice
    )
    x = numbers(6, 5, 7)

    def flax(draws: list[int]) -> jax.Array:
        first, second, third, fourth = map(draw_key, draws)
        y = flax_dropout(x, 0.3, first)
        y = flax_dropout(y, 0.1, second)
        y = flax_dropout(y, 0.5, third, broadcast_dims=(2,))
        return flax_dropout(y, 0.3, fourth)

    assert same(shared(model, x), flax([0, 1, 2, 3]))
    assert not same(shared(model, x), flax([1, 0, 2, 3]))
    assert not same(shared(model, x), flax([0, 1, 3, 2]))


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
    theirs = flax_dropout(np.moveaxis(x, channel, -1), 0.3, draw_key(0), broadcast_dims=spatial)
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
    theirs = flax_dropout(np.moveaxis(x, channel, -1), 0.3, draw_key(0))
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
    theirs = [flax_dropout(x, 0.4, draw_key(n)) for n in range(3)]
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
    expected = flax_dropout(x * 2, 0.4, draw_key(0))
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


def test_the_model_is_as_it_was_after_an_exception() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Dropout2d())
    before = [dict(vars(module)) for module in model.modules()]
    x = torch.ones(4, 3, 2, 2)
    with pytest.raises(ZeroDivisionError), shared_dropout(model, random.key(0)):
        raise ZeroDivisionError
    assert [dict(vars(module)) for module in model.modules()] == before
    torch.manual_seed(0)
    first = model(x)
    assert not torch.equal(model(x), first), "PyTorch's own masks"


def test_nested_contexts_restore_the_outer_one(same: Same, to_torch: ToTorch) -> None:
    x, module = numbers(6, 50), nn.Dropout(0.4)
    with shared_dropout(module, random.dropout_key(SEED, STEP)):
        assert same(module(to_torch(x)), flax_dropout(x, 0.4, draw_key(0)))
        with shared_dropout(module, random.key(99)):
            assert same(module(to_torch(x)), flax_dropout(x, 0.4, jax.random.fold_in(jax.random.key(99), 0)))
        assert same(module(to_torch(x)), flax_dropout(x, 0.4, draw_key(1)))


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


def test_a_subclass_is_shared_by_what_it_calls(same: Same, shared: Shared) -> None:
    x = numbers(6, 50)
    assert same(shared(Renamed(0.4), x), flax_dropout(x, 0.4, draw_key(0)))
    assert not same(shared(Renamed(0.4), x), flax_dropout(x, 0.4, draw_key(1)))
    noise = jax.random.uniform(draw_key(0), x.shape, x.dtype)
    assert same(shared(Noisy(0.4), x), x + noise)


# %% Functions, and what drops inside


class Functional(nn.Module):
    """Six draws, none of them a module's."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.dropout(x, 0.3, self.training)
        y = F.scaled_dot_product_attention(y, x, y, dropout_p=0.4 if self.training else 0.0)
        y = F.dropout2d(y, 0.2, self.training) if self.training else y
        y = F.alpha_dropout(y, 0.1, self.training)
        y = F.rrelu(y, 0.1, 0.4, self.training)
        return y * (torch.rand(len(y), 1, 1, 1, dtype=y.dtype) + 0.5).floor() if self.training else y


def functional_in_jax(x: Any, keys: list[Any]) -> Any:
    rates = (0.3, 0.4, 0.2, 0.1)
    y = flax_dropout(x, rates[0], keys[0])
    weights = jax.nn.softmax(y @ x.mT / x.shape[-1] ** 0.5, axis=-1)
    y = flax_dropout(weights, rates[1], keys[1]) @ y
    y = flax_dropout(y, rates[2], keys[2], broadcast_dims=(2, 3))
    y = alpha_dropout(y, jax.random.bernoulli(keys[3], 1 - rates[3], y.shape), rates[3])
    y = jnp.where(y > 0, y, y * jax.random.uniform(keys[4], y.shape, y.dtype, 0.1, 0.4))
    return y * jnp.floor(jax.random.uniform(keys[5], (len(y), 1, 1, 1), y.dtype) + 0.5)


@pytest.mark.sweep
def test_functions_draw_in_the_order_of_their_calls(to_torch: ToTorch) -> None:
    x = np.random.default_rng(0).normal(0, 1, (5, 3, 4, 6))
    with jax.enable_x64(True):
        y, backward = jax.vjp(lambda x: functional_in_jax(x, [draw_key(n) for n in range(6)]), jnp.asarray(x))
        gradient = backward(jnp.cos(y))[0]
        other = functional_in_jax(jnp.asarray(x), [draw_key(n) for n in (1, 0, 2, 3, 4, 5)])
    ours = to_torch(x).requires_grad_()
    with shared_dropout(model := Functional(), random.dropout_key(SEED, STEP, x64=True)):
        out = model(ours)
    out.backward(out.detach().cos())
    assert ours.grad is not None
    np.testing.assert_allclose(out.detach(), y, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours.grad, gradient, rtol=1e-11, atol=1e-13)
    assert np.abs(out.detach().numpy() - np.asarray(other)).max() > 0.1
    with shared_dropout(model.eval(), random.key(0)):
        assert torch.equal(model(ours), Functional().eval()(ours)), "in evaluation nothing is drawn"


class Randint(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randint_like(x, 5)


class Gumbel(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gumbel_softmax(x)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, dropout=0.5)

    def forward(self, x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]))
        return self.lstm(packed)[0].data


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda x: F.dropout(x, 0.5), x, use_reentrant=self.reentrant)


class OwnGenerator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(int(x.sum()) + 123)
        return x


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Randint(), "randint_like draws random numbers"),
        (Gumbel(), "exponential_ draws random numbers"),
        (Packed(), "of a packed sequence"),
        (Checkpointed(True), "activation checkpointing"),
        (Checkpointed(False), "activation checkpointing"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_cannot_be_shared_is_named_with_its_line(model: nn.Module, told: str) -> None:
    x = torch.ones(5, 2, 4, requires_grad=True)
    with pytest.raises(UsageError, match=rf"test_dropout\.py:\d+: .*{told}"), shared_dropout(model, random.key(0)):
        model(x)
    with shared_dropout(nn.Linear(4, 1), random.key(0)):
        pass  # and the next one is as ever


def test_a_draw_out_of_sight_is_told() -> None:
    with (
        pytest.raises(UsageError, match="PyTorch's own generator"),
        shared_dropout(model := OwnGenerator(), random.key(0)),
    ):
        model(torch.ones(3))


def test_a_compiled_model_runs_as_it_is(same: Same, to_torch: ToTorch) -> None:
    x, model = numbers(6, 50), nn.Dropout(0.4)
    compiled = torch.compile(model, backend="eager")
    compiled(to_torch(x))
    with shared_dropout(model, random.dropout_key(SEED, STEP)):
        assert same(compiled(to_torch(x)), flax_dropout(x, 0.4, draw_key(0)))
        assert same(compiled(to_torch(x)), flax_dropout(x, 0.4, draw_key(1)))


class Moved:
    """A layout of a draw: JAX's axes are torch's in another order."""

    order, folded = (0, 2, 1), None


class OwnForward(nn.LSTM):
    """A class whose base has a layout of its own, and which draws by what its own forward calls."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.dropout(x, 0.5, self.training)


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


def test_a_forward_of_its_own_is_laid_out() -> None:
    x, key = torch.ones(3, 4, 5), random.dropout_key(SEED, STEP)
    drawn = []
    for model in (Plain(), OwnForward(2, 2)):
        with shared_dropout(model, key, layouts=[Moved()]):
            drawn.append(model(x))
    assert torch.equal(*drawn)
    with shared_dropout(Plain(), key):
        assert not torch.equal(Plain()(x), drawn[0])
