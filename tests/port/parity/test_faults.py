"""Faults that porting makes, planted one at a time: each is found, and the right layer is named first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import port
from port.nn import BatchNorm
from port.pairs import LayerPair, registered
from port.pairs.layers.linear import PARAMS
from port.parity import CheckReport

WIDTH = 6

# %% A perceptron, square in the middle


class Perceptron(nn.Module):
    """5 → 6 → 6 → 3."""

    def __init__(self, act: Callable[[], nn.Module] = nn.ReLU, *, detach: bool = False) -> None:
        super().__init__()
        self.fc1, self.act = nn.Linear(5, WIDTH), act()
        self.fc2, self.fc3 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.detach = detach

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.act(self.fc1(x))
        return self.fc3(self.fc2(h.detach() if self.detach else h) + 0.3)


class FlaxPerceptron(nnx.Module):
    """The same."""

    def __init__(self, act: Callable[[jax.Array], jax.Array] = jax.nn.relu, *, stop: bool = False) -> None:
        rngs = nnx.Rngs(0)
        self.fc1 = nnx.Linear(5, WIDTH, rngs=rngs)
        self.fc2, self.fc3 = nnx.Linear(WIDTH, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 3, rngs=rngs)
        self.act, self.stop = act, stop

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.act(self.fc1(x))
        return self.fc3(self.fc2(jax.lax.stop_gradient(h) if self.stop else h) + 0.3)


class OtherOrder(FlaxPerceptron):
    """Two layers of one shape, the second first."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.fc3(self.act(self.fc1(self.fc2(x))))


class Square(nn.Module):
    """6 → 6 → 6 → 3."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc3(torch.relu(self.fc2(self.fc1(x))))


def inputs(*shape: int, scale: float = 2.0, mean: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return mean + scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def seeded(make: Callable[[], nn.Module]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = make()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return module


def checked(theirs: nn.Module, ours: nnx.Module, x: Any, **options: Any) -> CheckReport:
    """The report of two models, the second with the first's weights."""
    port.load(ours, theirs)
    return port.check(theirs, ours, x, **options)


def says(report: CheckReport, *texts: str) -> bool:
    return all(text in str(report) for text in texts)


@pytest.mark.sweep
def test_the_same_perceptron_agrees() -> None:
    report = checked(seeded(Perceptron), FlaxPerceptron(), inputs(4, 5))
    assert report, str(report)
    assert report.first is None
    assert says(report, "agree in float64")


# %% Weights


def with_kernel(change: Callable[[np.ndarray], np.ndarray]) -> tuple[nn.Module, FlaxPerceptron]:
    theirs, ours = seeded(Perceptron), FlaxPerceptron()
    port.load(ours, theirs)
    ours.fc2.kernel[...] = jnp.asarray(change(np.asarray(ours.fc2.kernel[...])), ours.fc2.kernel.dtype)
    return theirs, ours


@pytest.mark.sweep
def test_a_transposed_square_weight() -> None:
    theirs, ours = with_kernel(np.transpose)
    report = port.check(theirs, ours, inputs(4, 5))
    assert not report
    first = report.findings[0]
    assert (first.what, first.where, first.why) == ("weights", "fc2.weight → fc2.kernel", "it is transposed")
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("fc2", True)
    assert says(report, 'weights="torch"')
    assert port.check(theirs, ours, inputs(4, 5), weights="torch"), "the architecture alone is right"


def test_a_weight_perturbed_by_a_millionth() -> None:
    theirs, ours = with_kernel(lambda kernel: kernel * np.where(np.indices(kernel.shape).sum(0) == 4, 1 + 1e-6, 1))
    report = port.check(theirs, ours, inputs(4, 5))
    assert report.findings[0].where == "fc2.weight → fc2.kernel"
    assert "5 of its 36 values" in report.findings[0].why
    assert 1e-8 < report.findings[0].difference < 2e-6
    assert report.first is not None
    assert report.first.layer == "fc2"


def test_a_weight_rounded_to_bfloat16() -> None:
    theirs, ours = with_kernel(lambda kernel: kernel.astype(jnp.bfloat16))
    report = port.check(theirs, ours, inputs(4, 5))
    assert report.findings[0].why == "it was rounded to bfloat16"


@pytest.mark.sweep
def test_swapped_weights_of_one_shape() -> None:
    theirs = seeded(Square)
    ours = OtherOrder()
    port.load(ours, theirs)
    ours.fc1.kernel[...], ours.fc2.kernel[...] = ours.fc2.kernel[...], ours.fc1.kernel[...]
    report = port.check(theirs, ours, inputs(4, WIDTH))
    whys = {finding.where: finding.why for finding in report.findings if finding.what == "weights"}
    assert whys == {
        "fc1.weight → fc1.kernel": "it holds the values of fc2.weight",
        "fc2.weight → fc2.kernel": "it holds the values of fc1.weight",
    }


# %% Forward


def test_layers_in_another_order() -> None:
    report = checked(seeded(Square), OtherOrder(), inputs(4, WIDTH))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("fc1", False)
    assert says(report, "torch calls fc1 where Flax calls fc2")


@pytest.mark.parametrize(
    ("theirs", "ours", "named"),
    [(nn.GELU, jax.nn.gelu, "approximate=False"), (nn.ReLU, jax.nn.relu6, "torch calls relu there, Flax relu6")],
    ids=["tanh GELU for erf", "relu6 for relu"],
)
def test_another_activation(theirs: Any, ours: Any, named: str) -> None:
    model = seeded(lambda: Perceptron(theirs))
    with torch.no_grad():
        model.fc1.bias.fill_(5.0)  # above relu6's edge
    report = checked(model, FlaxPerceptron(ours), inputs(4, 5))
    assert report.first is not None
    assert (report.first.direction, report.first.layer, report.first.itself) == ("forward", "fc2", False)
    assert says(report, "between fc1 and it", named)


def test_the_exact_gelu_agrees() -> None:
    exact = lambda x: jax.nn.gelu(x, approximate=False)  # noqa: E731
    assert checked(seeded(lambda: Perceptron(nn.GELU)), FlaxPerceptron(exact), inputs(4, 5))


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(5, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.norm(self.fc1(x)))


class FlaxNormed(nnx.Module):
    def __init__(self, epsilon: float = 1e-5, *, fast: bool = False) -> None:
        rngs = nnx.Rngs(0)
        self.fc1, self.fc2 = nnx.Linear(5, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 3, rngs=rngs)
        self.norm = nnx.LayerNorm(WIDTH, epsilon=epsilon, use_fast_variance=fast, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.fc2(self.norm(self.fc1(x)))


@pytest.mark.sweep
def test_another_epsilon() -> None:
    assert checked(seeded(Normed), FlaxNormed(), inputs(4, 5))
    report = checked(seeded(Normed), FlaxNormed(1e-6), inputs(4, 5))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("norm", True)
    assert says(report, "epsilon is 1e-05 in torch and 1e-06 in Flax")


@pytest.mark.sweep
def test_the_fast_variance_of_a_large_mean() -> None:
    model = seeded(Normed)
    with torch.no_grad():
        model.fc1.bias.add_(1e4)
    report = checked(model, FlaxNormed(fast=True), inputs(4, 5))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("norm", True)
    assert says(report, "use_fast_variance=True")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(x)


class FlaxBlock(nnx.Module):
    def __init__(self, *, residual: bool) -> None:
        self.fc = nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0))
        self.residual = residual

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.fc(x) if self.residual else self.fc(x)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.tanh(block(x))
        return x


class FlaxBlocks(nnx.Module):
    def __init__(self, *, residual: bool) -> None:
        self.blocks = nnx.List([FlaxBlock(residual=True), FlaxBlock(residual=residual)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = jnp.tanh(block(x))
        return x


def test_a_missing_residual() -> None:
    assert checked(seeded(Blocks), FlaxBlocks(residual=True), inputs(4, WIDTH))
    report = checked(seeded(Blocks), FlaxBlocks(residual=False), inputs(4, WIDTH))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("blocks.1", True)
    rows = {row.layer: row for row in report.layers["evaluation"]}
    assert rows["blocks.1.fc"].output < 1e-12, "what is inside the block is right"


class Attention(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = [f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value)]
        return self.out(nn.functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))


class FlaxAttention(nnx.Module):
    def __init__(self, heads: int, *, of_jax: bool = False) -> None:
        rngs = nnx.Rngs(0)
        self.query, self.key, self.value, self.out = (nnx.Linear(8, 8, rngs=rngs) for _ in range(4))
        self.heads, self.of_jax = heads, of_jax

    def __call__(self, x: jax.Array) -> jax.Array:
        q, k, v = (f(x).reshape(*x.shape[:2], self.heads, -1) for f in (self.query, self.key, self.value))
        if self.of_jax:
            return self.out(jax.nn.dot_product_attention(q, k, v).reshape(x.shape))
        weights = jax.nn.softmax(jnp.einsum("nlhd,nmhd->nhlm", q, k) / q.shape[-1] ** 0.5)
        return self.out(jnp.einsum("nhlm,nmhd->nlhd", weights, v).reshape(x.shape))


@pytest.mark.sweep
def test_another_number_of_heads() -> None:
    assert checked(seeded(lambda: Attention(4)), FlaxAttention(4), inputs(2, 3, 8))
    report = checked(seeded(lambda: Attention(4)), FlaxAttention(2), inputs(2, 3, 8))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("out", False)
    assert says(report, "between value and it")


@pytest.mark.sweep
def test_what_is_computed_in_float32_whatever_it_is_given() -> None:
    """jax.nn.dot_product_attention takes its softmax in float32, under x64 too."""
    report = checked(seeded(lambda: Attention(4)), FlaxAttention(4, of_jax=True), inputs(2, 3, 8))
    assert report.first is not None
    assert report.first.layer == "out"
    assert says(report, "float64 to float32")


# %% Embeddings


class Words(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.emb, self.fc = nn.Embedding(7, 5, **options), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.emb(x))


class FlaxWords(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.emb, self.fc = nnx.Embed(7, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.fc(self.emb(x))


@pytest.mark.parametrize("option", [{"padding_idx": 2}, {"max_norm": 0.5}, {"scale_grad_by_freq": True}])
@pytest.mark.thin(2)
def test_an_option_that_flaxs_embedding_lacks(option: dict[str, Any]) -> None:
    report = checked(seeded(lambda: Words(**option)), FlaxWords(), torch.tensor([[0, 2, 2], [6, 1, 2]]))
    assert report.first is not None
    assert report.first.layer == "emb"
    ((name, value),) = option.items()
    told = [*report.hints, *(cause.remedy for cause in report.causes)]
    assert [said for said in told if f"port.nn.Embedding({name}={value})" in said]


def test_a_plain_embedding_agrees() -> None:
    report = checked(seeded(Words), FlaxWords(), torch.tensor([[0, 2, 2], [6, 1, 2]]))
    assert report, str(report)
    assert not report.hints


# %% Convolutions


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm, self.fc = nn.BatchNorm2d(4), nn.Linear(4 * 4 * 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (N, C, H, W)
        return self.fc(self.norm(self.conv(x)).relu().flatten(1))


class FlaxConvNet(nnx.Module):
    def __init__(self, padding: Any = 1) -> None:
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(3, 4, (3, 3), strides=2, padding=padding, rngs=rngs)
        self.norm, self.fc = BatchNorm(4), nnx.Linear(4 * 4 * 3, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:  # (N, H, W, C)
        return self.fc(jax.nn.relu(self.norm(self.conv(x))).reshape(len(x), -1))


FOLD = {"fc": (4, 4, 3)}


def checked_net(ours: nnx.Module, fold: Any = FOLD) -> CheckReport:
    theirs = seeded(ConvNet)
    port.load(ours, theirs, fold=fold)
    return port.check(theirs, ours, inputs(2, 3, 8, 6), fold=fold)


@pytest.mark.sweep
def test_the_same_net_agrees() -> None:
    report = checked_net(FlaxConvNet())
    assert report, str(report)
    assert says(report, "axis 1 (channels) was moved last for Flax")


@pytest.mark.sweep
def test_padding_by_same_at_a_stride() -> None:
    report = checked_net(FlaxConvNet("SAME"))
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("conv", True)
    assert says(report, "(W3)")


@pytest.mark.sweep
def test_an_unfolded_flatten() -> None:
    report = checked_net(FlaxConvNet(), fold=None)
    assert report.first is not None
    assert (report.first.layer, report.first.itself) == ("fc", False)
    assert says(report, "in another order", 'fold={"fc": (4, 4, 3)}')


# %% Running statistics


class Tracked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(5, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.norm(self.fc1(x)))


class FlaxTracked(nnx.Module):
    def __init__(self, momentum: float) -> None:
        rngs = nnx.Rngs(0)
        self.fc1, self.fc2 = nnx.Linear(5, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(WIDTH, momentum=momentum, epsilon=1e-5, use_fast_variance=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.fc2(self.norm(self.fc1(x)))


@pytest.mark.sweep
def test_the_biased_running_variance() -> None:
    report = checked(seeded(Tracked), FlaxTracked(0.9), inputs(16, 5))
    assert [finding.where for finding in report.findings] == ["norm.running_var → norm.var"]
    assert report.findings[0].what == "buffers"
    assert says(report, "(W8)")


@pytest.mark.sweep
def test_a_momentum_the_other_way_round() -> None:
    report = checked(seeded(Tracked), FlaxTracked(0.1), inputs(16, 5))
    assert {finding.where for finding in report.findings} == {
        "norm.running_mean → norm.mean",
        "norm.running_var → norm.var",
    }
    assert says(report, "momentum is 0.1 in torch and 0.1 in Flax", "(W7)")


# %% Backward


def test_a_gradient_stopped_in_flax() -> None:
    report = checked(seeded(Perceptron), FlaxPerceptron(stop=True), inputs(4, 5))
    assert not any(finding.what == "forward" for finding in report.findings)
    assert report.first is not None
    assert (report.first.direction, report.first.layer, report.first.itself) == ("backward", "fc1", False)
    assert says(report, "between it and fc2")


@pytest.mark.sweep
def test_a_gradient_stopped_in_torch() -> None:
    report = checked(seeded(lambda: Perceptron(detach=True)), FlaxPerceptron(), inputs(4, 5))
    assert report.first is not None
    assert (report.first.direction, report.first.layer) == ("backward", "fc1")
    assert checked(seeded(lambda: Perceptron(detach=True)), FlaxPerceptron(stop=True), inputs(4, 5))


class HalfBack(nnx.Linear):
    """Right forward, half the gradient back to its input."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        return super().__call__((inputs + jax.lax.stop_gradient(inputs)) / 2)


@pytest.mark.sweep
def test_a_layer_with_another_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = LayerPair(torch="torch.nn.Linear", flax=HalfBack, params=PARAMS)
    monkeypatch.setattr(registered, "_pairs", [pair])
    ours = FlaxPerceptron()
    ours.fc2 = HalfBack(WIDTH, WIDTH, rngs=nnx.Rngs(0))
    report = checked(seeded(Perceptron), ours, inputs(4, 5))
    assert report.first is not None
    assert (report.first.direction, report.first.layer, report.first.itself) == ("backward", "fc2", True)


def test_half_the_gradient_between_two_layers() -> None:
    halved = lambda x: (jax.nn.relu(x) + jax.lax.stop_gradient(jax.nn.relu(x))) / 2  # noqa: E731
    report = checked(seeded(Perceptron), FlaxPerceptron(halved), inputs(4, 5))
    assert report.first is not None
    assert (report.first.direction, report.first.layer, report.first.itself) == ("backward", "fc1", False)


# %% Tied weights


class Tied(nn.Module):
    def __init__(self, *, tied: bool = True) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(7, WIDTH), nn.Linear(WIDTH, 7, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embed(tokens)))


class FlaxUntied(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.embed, self.head = nnx.Embed(7, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 7, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.head(jnp.tanh(self.embed(tokens)))


class FlaxTied(nnx.Module):
    def __init__(self) -> None:
        self.embed = nnx.Embed(7, WIDTH, rngs=nnx.Rngs(0))

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.embed.attend(jnp.tanh(self.embed(tokens)))


TOKENS = np.array([[1, 6, 2], [0, 1, 1]])


@pytest.mark.sweep
def test_weights_tied_on_both_sides_agree() -> None:
    assert checked(seeded(Tied), FlaxTied(), TOKENS)
    assert checked(seeded(lambda: Tied(tied=False)), FlaxUntied(), TOKENS)


@pytest.mark.sweep
def test_weights_tied_in_torch_only() -> None:
    report = checked(seeded(Tied), FlaxUntied(), TOKENS)
    assert not report
    assert [finding.what for finding in report.findings] == ["weights"]
    assert says(report, "one tensor in torch", "embed.weight, head.weight", "tensors of their own")
