"""Layers without weights beside the twins that their pairs name, in float64: on torch's own samples, and on ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

from port.pairs import build_twin, pairs_of_flax, twin_pair
from port.pairs.layers import activation, distance, dropout, padding, pooling, resize, response_norm, shape

OUTPUT, GRADIENT, VISIBLE = 1e-10, 1e-9, 1e-4

FAMILIES = (activation, distance, dropout, padding, pooling, resize, response_norm, shape)
LAYERS = {pair.torch.removeprefix("torch.nn.") for family in FAMILIES for pair in family.PAIRS}


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def difference(module: nn.Module, *inputs: Any, **faults: Any) -> tuple[float, float]:
    """The largest difference of the outputs and of the inputs' gradients, each relative to the largest value.

    ``faults`` are arguments of a function twin that are not as the pair has them.
    """
    pair, twin = twin_pair(module), build_twin(module)
    if isinstance(twin, nnx.Module):
        twin.eval()
        assert pair in pairs_of_flax(twin)
    moved = range(len(inputs)) if pair.channel_inputs is None else pair.channel_inputs
    axes = [pair.channels if i in moved else None for i in range(len(inputs))]
    tensors = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    expected = as_tuple(module.eval()(*tensors))
    floats = [i for i, x in enumerate(tensors) if x.requires_grad]
    cotangents = [random(y.shape, 2) for y in expected if y.is_floating_point()]
    outputs = [y for y in expected if y.is_floating_point()]
    gradients = torch.autograd.grad(outputs, [tensors[i] for i in floats], list(map(torch.from_numpy, cotangents)))

    def call(*differentiated: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        given = [jnp.asarray(x.detach().numpy()) for x in tensors]
        for i, x in zip(floats, differentiated, strict=True):
            given[i] = x
        last = [x if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in zip(given, axes, strict=True)]
        function = partial(twin, **faults) if faults else twin
        results = [
            y if pair.channels is None or not pair.channel_outputs else jnp.moveaxis(y, -1, pair.channels)
            for y in as_tuple(function(*last))
        ]
        return [y for y in results if jnp.issubdtype(y.dtype, jnp.floating)], results

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def run(*differentiated: jax.Array) -> tuple[list[jax.Array], Any]:
        _, pull_back, results = jax.vjp(call, *differentiated, has_aux=True)
        return results, pull_back([jnp.asarray(c) for c in cotangents])

    got, pulled = run(*(jnp.asarray(tensors[i].detach().numpy()) for i in floats))
    assert len(got) == len(expected)
    return (
        max(apart(y, z.detach().numpy()) for y, z in zip(got, expected, strict=True)),
        max((apart(y, z.numpy()) for y, z in zip(pulled, gradients, strict=True)), default=0.0),
    )


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def apart(got: Any, expected: np.ndarray) -> float:
    got = np.asarray(got)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    assert (got.dtype.kind == "i") == (expected.dtype.kind == "i")
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return np.inf
    largest = np.abs(expected[finite]).max(initial=0)
    return float(np.abs(got[finite] - expected[finite]).max(initial=0) / (largest or 1))


def random(shape: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.3, 2, tuple(shape))


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.asarray(random(shape, seed)))


def check(module: nn.Module, *inputs: Any) -> None:
    output, gradient = difference(module, *inputs)
    assert output <= OUTPUT
    assert gradient <= GRADIENT


# %% torch's own samples

SAMPLED = (
    *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax"),
    *("Mish", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus"),
    *("Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold", "LocalResponseNorm"),
    *("FractionalMaxPool2d", "FractionalMaxPool3d"),
    *(f"{kind}Pool{d}d" for kind in ("Max", "Avg", "LP", "AdaptiveAvg", "AdaptiveMax") for d in (1, 2, 3)),
    *(f"{kind}Pad{d}d" for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular") for d in (1, 2, 3)),
)


def check_sample(name: str, sample: Any) -> None:
    module = getattr(nn, name)(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    check(module, *sample.forward_input.args)


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample(name: str, samples: Callable[..., list[Any]]) -> None:
    check_sample(name, samples(name, True)[-1])


@pytest.mark.sweep
@pytest.mark.parametrize("name", SAMPLED)
def test_every_sample(name: str, samples: Callable[..., list[Any]], subtests: pytest.Subtests) -> None:
    for sample in samples(name, True):
        with subtests.test(f"{sample.constructor_input.args} {sample.constructor_input.kwargs}"):
            check_sample(name, sample)


# %% Options that torch's samples leave out

IMAGE = (2, 6, 9, 7)
VOLUME = (2, 3, 6, 5, 7)
MAX_INDICES = torch.from_numpy(np.random.default_rng(0).permuted(np.tile(np.arange(64), (10, 1)), axis=1)[:, :20])

OWN: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "celu, alpha no float32": (nn.CELU(0.7), (tensor(5, 7),)),
    "gelu, none": (nn.GELU("none"), (tensor(5, 7),)),
    "gelu, tanh": (nn.GELU("tanh"), (tensor(5, 7),)),
    "glu, axis 0": (nn.GLU(0), (tensor(6, 7),)),
    "hardsigmoid": (nn.Hardsigmoid(), (tensor(50, 7),)),
    "hardtanh": (nn.Hardtanh(-0.3, 1.2), (tensor(5, 7),)),
    "leaky relu": (nn.LeakyReLU(-0.4), (tensor(5, 7),)),
    "rrelu in evaluation": (nn.RReLU(0.1, 0.4), (tensor(5, 7),)),
    "softmax2d, no batch": (nn.Softmax2d(), (tensor(6, 5, 7),)),
    "softplus": (nn.Softplus(1.7, 2.0), (tensor(50, 7),)),
    "threshold": (nn.Threshold(0.4, -3.0), (tensor(5, 7),)),
    "max pool 1d": (nn.MaxPool1d(3, 2, 1, dilation=2, ceil_mode=True), (tensor(2, 3, 12),)),
    "max pool 2d": (nn.MaxPool2d((3, 2), (2, 3), 1, ceil_mode=True), (tensor(*IMAGE),)),
    "max pool 2d, plain": (nn.MaxPool2d((3, 2), (2, 3), 1), (tensor(*IMAGE),)),
    "max pool 2d, indices": (nn.MaxPool2d(3, 2, (1, 0), (1, 2), return_indices=True), (tensor(*IMAGE),)),
    "max pool 3d": (nn.MaxPool3d((2, 3, 2), (1, 2, 3), (1, 1, 0), return_indices=True), (tensor(*VOLUME),)),
    "avg pool 1d": (nn.AvgPool1d(3, 2, 1, ceil_mode=True, count_include_pad=False), (tensor(2, 3, 10),)),
    "avg pool 2d": (nn.AvgPool2d((4, 2), 3, (2, 1), True), (tensor(*IMAGE),)),
    "avg pool 2d, plain": (nn.AvgPool2d((4, 2), 3, (2, 1)), (tensor(*IMAGE),)),
    "avg pool 2d, divisor": (nn.AvgPool2d((4, 2), 3, (2, 1), True, divisor_override=5), (tensor(*IMAGE),)),
    "avg pool 2d, no pad": (nn.AvgPool2d((4, 2), 3, (2, 1), count_include_pad=False), (tensor(*IMAGE),)),
    "avg pool 3d": (nn.AvgPool3d((2, 3, 2), (1, 2, 3), (1, 1, 0), True, False), (tensor(*VOLUME),)),
    "adaptive avg pool, mean": (nn.AdaptiveAvgPool3d((1, 1, 1)), (tensor(*VOLUME),)),
    "adaptive max pool, indices": (nn.AdaptiveMaxPool2d((4, None), return_indices=True), (tensor(*IMAGE),)),
    "lp pool, ceil": (nn.LPPool2d(3.0, (3, 2), 2, ceil_mode=True), (tensor(*IMAGE).abs(),)),
    "lp pool, largest": (nn.LPPool2d(float("inf"), 2), (tensor(*IMAGE),)),
    "lp pool, least": (nn.LPPool1d(-float("inf"), 2), (tensor(2, 3, 8),)),
    "max unpool 1d": (nn.MaxUnpool1d(2), (tensor(1, 3, 4), torch.tensor([[[0, 2, 5, 7], [1, 3, 4, 6], [0, 3, 5, 6]]]))),
    "max unpool 2d": (nn.MaxUnpool2d(2), (tensor(2, 5, 4, 5), MAX_INDICES.reshape(2, 5, 4, 5))),
    "max unpool 3d": (nn.MaxUnpool3d(2), (tensor(5, 2, 2, 5), MAX_INDICES.reshape(5, 2, 2, 2, 5)[:, 0])),
    "constant pad, negative": (nn.ConstantPad2d((-2, 3, 1, -1), 1.5), (tensor(*IMAGE),)),
    "reflection pad, negative": (nn.ReflectionPad1d((-2, 6)), (tensor(2, 3, 7),)),
    "replication pad, negative": (nn.ReplicationPad3d((1, -2, -1, 3, 0, 2)), (tensor(*VOLUME),)),
    "circular pad, negative": (nn.CircularPad2d((-2, 3, 2, -1)), (tensor(*IMAGE),)),
    "upsample": (nn.Upsample(scale_factor=(1.7, 0.6), mode="bicubic"), (tensor(*IMAGE),)),
    "upsample 1d": (nn.Upsample(11, mode="linear", align_corners=True), (tensor(2, 3, 7),)),
    "upsample 3d": (nn.Upsample((3, 9, 8), mode="trilinear"), (tensor(*VOLUME),)),
    "upsample, recomputed": (
        nn.Upsample(scale_factor=1.3, mode="bilinear", recompute_scale_factor=True),
        (tensor(*IMAGE),),
    ),
    "upsampling nearest": (nn.UpsamplingNearest2d(scale_factor=2), (tensor(*IMAGE),)),
    "upsampling bilinear": (nn.UpsamplingBilinear2d((5, 11)), (tensor(*IMAGE),)),
    "pixel shuffle": (nn.PixelShuffle(2), (tensor(2, 12, 3, 5),)),
    "pixel shuffle, no batch": (nn.PixelShuffle(2), (tensor(12, 3, 5),)),
    "pixel unshuffle": (nn.PixelUnshuffle(3), (tensor(2, 2, 6, 9),)),
    "channel shuffle": (nn.ChannelShuffle(3), (tensor(*IMAGE),)),
    "unfold": (nn.Unfold((3, 2), (1, 2), (1, 0), (2, 1)), (tensor(*IMAGE),)),
    "fold": (nn.Fold((5, 6), (3, 2), (1, 2), (1, 0), (2, 1)), (tensor(2, 18, 12),)),
    "flatten": (nn.Flatten(1, -2), (tensor(2, 3, 4, 5),)),
    "flatten, all": (nn.Flatten(), (tensor(2, 3, 4, 5),)),
    "unflatten": (nn.Unflatten(-2, (2, -1)), (tensor(3, 6, 5),)),
    "identity": (nn.Identity(), (tensor(2, 3),)),
    "cosine similarity": (nn.CosineSimilarity(1, 1e-3), (tensor(3, 4, 5), tensor(3, 4, 5, seed=1))),
    "pairwise distance": (nn.PairwiseDistance(3.0, keepdim=True), (tensor(3, 4), tensor(3, 4, seed=1))),
    "local response norm": (nn.LocalResponseNorm(4, 0.3, 0.6, 1.3), (tensor(*IMAGE),)),
    "cross map lrn": (nn.CrossMapLRN2d(3, 0.3, 0.6, 1.3), (tensor(*IMAGE),)),
    "cross map lrn, even": (nn.CrossMapLRN2d(4, 0.3, 0.6, 1.3), (tensor(*IMAGE),)),
    "cross map lrn, wide": (nn.CrossMapLRN2d(9, 0.3, 0.6, 1.3), (tensor(*IMAGE),)),
    "dropout": (nn.Dropout(0.3), (tensor(5, 7),)),
    "dropout 1d": (nn.Dropout1d(0.3), (tensor(2, 3, 7),)),
    "dropout 2d": (nn.Dropout2d(0.3), (tensor(*IMAGE),)),
    "dropout 3d": (nn.Dropout3d(0.3), (tensor(*VOLUME),)),
    "alpha dropout": (nn.AlphaDropout(0.3), (tensor(5, 7),)),
    "feature alpha dropout": (nn.FeatureAlphaDropout(0.3), (tensor(*IMAGE),)),
}


@pytest.mark.parametrize("case", OWN)
@pytest.mark.thin(6)
def test_a_case_of_ours(case: str) -> None:
    module, inputs = OWN[case]
    check(module, *inputs)


def test_every_pair_is_checked() -> None:
    checked = set(SAMPLED) | {type(module).__name__ for module, _ in OWN.values()}
    assert checked == LAYERS


def test_every_layer_of_torchs_stateless_families_has_a_pair() -> None:
    homes = ("activation", "channelshuffle", "distance", "dropout", "flatten", "fold", "padding", "pixelshuffle")
    homes += ("pooling", "upsampling")
    there = {name for name in nn.modules.__all__ if getattr(nn, name).__module__.rpartition(".")[2] in homes}
    assert there - LAYERS == {"MultiheadAttention", "PReLU"}  # these have weights


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ("gelu, none", {"approximate": True}),
        ("hardtanh", {"max_val": 1.3}),
        ("softplus", {"threshold": 20.0}),
        ("softmax2d, no batch", {"axis": -2}),
        ("max pool 2d", {"kernel_size": (3, 3)}),
        ("max pool 2d, indices", {"kernel_size": (2, 3)}),
        ("avg pool 2d", {"count_include_pad": False}),
        ("avg pool 2d, no pad", {"count_include_pad": True}),
        ("circular pad, negative", {"mode": "reflect"}),
        ("constant pad, negative", {"pad": (3, -2, 1, -1)}),
        ("upsample", {"recompute_scale_factor": True}),
        ("upsample 1d", {"align_corners": False}),
        ("pairwise distance", {"p": 2.0}),
        ("cross map lrn", {"k": 1.0}),
        ("local response norm", {"size": 3}),
    ],
)
@pytest.mark.thin(3)
def test_a_twin_with_another_option_is_seen(case: str, fault: dict[str, Any]) -> None:
    module, inputs = OWN[case]
    assert max(difference(module, *inputs, **fault)) > VISIBLE


def test_the_simplest_twin_is_named() -> None:
    """Flax's and JAX's own functions where they are the same, ours where not."""
    named = {
        "flax.nnx.max_pool": nn.MaxPool2d(3, 2, 1),
        "port.nn.functional.max_pool": nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        "flax.nnx.avg_pool": nn.AvgPool2d(3, 2, 1),
        "port.nn.functional.avg_pool": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        "jax.numpy.mean": nn.AdaptiveAvgPool2d(1),
        "port.nn.functional.adaptive_avg_pool": nn.AdaptiveAvgPool2d((1, 2)),
        "jax.nn.softmax": nn.Softmax(-1),
        "port.nn.functional.softmax": nn.Softmax(),
        "jax.nn.celu": nn.CELU(0.5),
        "port.nn.functional.celu": nn.CELU(0.7),
    }
    assert {flax: twin_pair(module).flax for flax, module in named.items()} == {flax: flax for flax in named}


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("layer", [nn.Softmax, nn.LogSoftmax, nn.Softmin])
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.thin(3)
def test_an_axis_that_nobody_gave_is_torchs(layer: Any, dimensions: int) -> None:
    check(layer(), tensor(*(3, 4, 5, 6)[:dimensions]))


def test_a_named_unflatten_is_refused_with_the_reason() -> None:
    module = nn.Unflatten(1, (2, 3))
    module.unflattened_size = (("rows", 2), ("columns", 3))
    from port.errors import NoPair

    with pytest.raises(NoPair, match="named axes"):
        build_twin(module)


def test_G4_a_spread_divides_by_one_less_in_torch() -> None:
    x = tensor(3, 7)
    for theirs, jaxs in ((torch.std, jnp.std), (torch.var, jnp.var)):
        expected = theirs(x, 1).numpy()
        np.testing.assert_allclose(jaxs(x.numpy(), 1, ddof=1), expected, rtol=1e-13)
        assert np.abs(jaxs(x.numpy(), 1) - expected).min() > VISIBLE
