"""Every layer pair: weights carried over compute the same, with the same gradients, and come back as they went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any
from unittest import TestCase

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import port
import port.pairs.modules
from port.mapping import Mapping, Permute
from port.nn import BatchNorm
from port.pairs import LAYERS, dotted, mapping_from_flax
from port.weights import arrays_of

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds

Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# %% A torch layer and its twin


def twin_of(layer: nn.Module) -> nnx.Module:
    """The JAX layer that a torch layer's attributes ask for; its initial weights are quickly made zeros."""
    given: dict[str, Any] = {"param_dtype": jnp.float64, "rngs": nnx.Rngs(0)}
    zeros = nnx.initializers.zeros_init()
    if isinstance(layer, nn.Linear):
        size_in, size_out = layer.in_features, layer.out_features
        return nnx.Linear(size_in, size_out, use_bias=layer.bias is not None, kernel_init=zeros, **given)
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        assert layer.padding_mode == "zeros"
        return nnx.Conv(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            strides=layer.stride,
            padding=explicit_padding(layer),
            kernel_dilation=layer.dilation,
            feature_group_count=layer.groups,
            use_bias=layer.bias is not None,
            kernel_init=zeros,
            **given,
        )
    assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
    return BatchNorm(
        layer.num_features,
        eps=layer.eps,
        momentum=layer.momentum,
        use_scale=layer.weight is not None,
        use_bias=layer.bias is not None,
        track_running_stats=layer.track_running_stats,
        **given,
    )


def explicit_padding(conv: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> tuple[tuple[int, int], ...]:
    if conv.padding == "valid":
        return tuple((0, 0) for _ in conv.kernel_size)
    if conv.padding == "same":
        totals = [dilation * (size - 1) for size, dilation in zip(conv.kernel_size, conv.dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((int(padding), int(padding)) for padding in conv.padding)


def channel_axis(layer: nn.Module) -> int:
    if isinstance(layer, nn.Linear):
        return -1
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return -1 - len(layer.kernel_size)
    return 1


def with_random_weights(layer: nn.Module) -> nn.Module:
    """Nothing zero, one or symmetric: every parameter and buffer takes part."""
    layer = layer.to(torch.float64)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in layer.state_dict().items():
            if name == "num_batches_tracked":
                tensor.fill_(3)
            elif name == "running_var":
                tensor.uniform_(0.5, 2, generator=generator)
            else:
                tensor.normal_(generator=generator)
    return layer


# %% What a layer does with an input: its output, every gradient, its buffers afterwards


def run_torch(layer: nn.Module, x: torch.Tensor) -> Arrays:
    layer, x = deepcopy(layer), x.detach().clone().requires_grad_()
    y = layer(x)
    y.backward(torch.from_numpy(cotangent(y.shape)))
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    return {
        "output": y.detach().numpy(),
        "gradient of the input": x.grad.numpy(),
        **{f"gradient of {name}": gradient.numpy() for name, gradient in gradients.items()},
        **{name: buffer.numpy() for name, buffer in layer.named_buffers()},
    }


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    """Random: the gradient of a plain sum would hide much."""
    return np.random.default_rng(2).normal(size=shape)


def run_flax(module: nnx.Module, x: torch.Tensor, axis: int) -> Arrays:
    """The same in torch's names and layouts; gradients come back through the mapping's inverse."""
    y, gradients, gradient_of_input, buffers = run(*nnx.split(module, nnx.Param, ...), x.numpy(), axis)
    carried = torch_names(module, gradients)
    return {
        "output": np.asarray(y),
        "gradient of the input": np.asarray(gradient_of_input),
        **{f"gradient of {name}": gradient for name, gradient in carried.items()},
        **torch_names(module, buffers),
    }


# Not optimised: these tests compile far more than they compute.
@partial(jax.jit, static_argnums=(0, 4), compiler_options={"xla_backend_optimization_level": 0})
def run(graphdef: Any, params: nnx.State, rest: nnx.State, x: jax.Array, axis: int) -> tuple[Any, ...]:
    def call(params: nnx.State, x: jax.Array) -> tuple[jax.Array, nnx.State]:
        model = nnx.merge(graphdef, params, rest, copy=True)
        y = jnp.moveaxis(model(jnp.moveaxis(x, axis, -1)), -1, axis)
        return y, nnx.state(model, nnx.BatchStat)

    y, pull_back, buffers = jax.vjp(call, params, x, has_aux=True)
    return y, *pull_back(jnp.asarray(cotangent(y.shape))), buffers


def torch_names(module: nnx.Module, state: nnx.State) -> Arrays:
    arrays = {dotted(path): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(state)}
    entries = [entry for entry in mapping_from_flax(module).entries if entry.target in arrays]
    return Mapping(tuple(entries)).inverse()(arrays)


def largest(a: Arrays, b: Arrays) -> float:
    """The largest difference of one tensor, over its largest magnitude or 1."""
    assert set(a) == set(b)
    differences = [0.0]
    for name in a:
        assert a[name].shape == b[name].shape, name
        if a[name].size:
            scale = max(1.0, np.abs(a[name]).max())
            differences.append(float(np.abs(a[name] - b[name]).max() / scale))
    return max(differences)


def difference(layer: nn.Module, x: torch.Tensor, *, training: bool = True) -> float:
    """How far apart a torch layer and its twin are, after `port.load`."""
    layer.train(training)
    twin = twin_of(layer)
    port.load(twin, arrays_of(layer))
    (twin.train if training else twin.eval)()
    return largest(run_torch(layer, x), run_flax(twin, x, channel_axis(layer)))


# %% The table

LAYERS_AND_INPUTS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(7, 4), (3, 7)),
    "linear, square": (lambda: nn.Linear(5, 5), (3, 5)),
    "linear, no bias, more axes": (lambda: nn.Linear(7, 4, bias=False), (2, 3, 7)),
    "conv1d": (lambda: nn.Conv1d(3, 5, 4), (2, 3, 9)),
    "conv1d, all at once": (lambda: nn.Conv1d(6, 4, 3, 2, 1, 2, groups=2, bias=False), (2, 6, 11)),
    "conv1d, depthwise with a multiplier": (lambda: nn.Conv1d(4, 8, 5, groups=4), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(3, 5, (2, 4)), (2, 3, 6, 7)),
    "conv2d, one by one, square": (lambda: nn.Conv2d(4, 4, 1), (2, 4, 3, 5)),
    "conv2d, a cube and more": (lambda: nn.Conv2d(3, 3, 3, padding=1), (2, 3, 4, 5)),
    "conv2d, stride": (lambda: nn.Conv2d(3, 5, 3, stride=(2, 1), padding=(1, 2)), (2, 3, 7, 6)),
    "conv2d, dilation": (lambda: nn.Conv2d(3, 5, (3, 2), dilation=(1, 3)), (2, 3, 7, 6)),
    "conv2d, groups": (lambda: nn.Conv2d(6, 9, (3, 2), groups=3), (2, 6, 5, 4)),
    "conv2d, groups as wide as the output": (lambda: nn.Conv2d(8, 4, 3, groups=2), (2, 8, 5, 4)),
    "conv2d, depthwise, no bias": (lambda: nn.Conv2d(5, 5, 3, groups=5, bias=False), (2, 5, 4, 6)),
    "conv2d, 'same', even": (lambda: nn.Conv2d(3, 4, (4, 3), padding="same", dilation=(2, 1)), (2, 3, 7, 6)),
    "conv3d": (lambda: nn.Conv3d(2, 3, (2, 3, 1)), (2, 2, 4, 5, 3)),
    "conv3d, all at once": (
        lambda: nn.Conv3d(4, 6, (2, 3, 1), (1, 2, 1), (1, 0, 2), (2, 1, 1), groups=2, bias=False),
        (2, 4, 5, 6, 3),
    ),
    "batchnorm1d": (lambda: nn.BatchNorm1d(5), (8, 5)),
    "batchnorm1d, sequences": (lambda: nn.BatchNorm1d(5, affine=False), (4, 5, 6)),
    "batchnorm2d": (lambda: nn.BatchNorm2d(3, eps=1e-2, momentum=0.37), (4, 3, 5, 2)),
    "batchnorm2d, cumulative": (lambda: nn.BatchNorm2d(3, momentum=None), (4, 3, 5, 2)),
    "batchnorm2d, no weight": (lambda: without(nn.BatchNorm2d(3), "weight"), (4, 3, 5, 2)),
    "batchnorm2d, no bias": (lambda: without(nn.BatchNorm2d(3), "bias"), (4, 3, 5, 2)),
    "batchnorm3d": (lambda: nn.BatchNorm3d(3), (3, 3, 2, 4, 2)),
    "batchnorm3d, no statistics": (lambda: nn.BatchNorm3d(3, track_running_stats=False), (3, 3, 2, 4, 2)),
}


def without(layer: nn.Module, parameter: str) -> nn.Module:
    layer.register_parameter(parameter, None)
    return layer


def layer_and_input(name: str) -> tuple[nn.Module, torch.Tensor]:
    make, shape = LAYERS_AND_INPUTS[name]
    return with_random_weights(make()), torch.from_numpy(np.random.default_rng(0).normal(1, 2, shape))


def test_every_pair_is_in_the_table() -> None:
    made = {f"torch.nn.{type(make()).__name__}" for make, _ in LAYERS_AND_INPUTS.values()}
    assert made == {pair.torch for pair in LAYERS}


@pytest.mark.parametrize("name", LAYERS_AND_INPUTS)
def test_the_twin_computes_the_same_with_the_same_gradients(name: str) -> None:
    layer, x = layer_and_input(name)
    assert difference(layer, x) < TOLERANCE


@pytest.mark.parametrize("name", LAYERS_AND_INPUTS)
def test_the_weights_come_back_bit_for_bit(name: str) -> None:
    layer, _ = layer_and_input(name)
    twin = twin_of(layer)
    port.load(twin, arrays_of(layer))
    back = deepcopy(layer).requires_grad_(False)
    for tensor in back.state_dict().values():
        tensor.zero_()
    back.load_state_dict({key: torch.from_numpy(np.array(a)) for key, a in arrays_of(twin).items()}, strict=True)
    for key, tensor in layer.state_dict().items():
        assert torch.equal(back.state_dict()[key], tensor), key


# %% Planted faults: all have the right shapes, and go there and back bit for bit


def with_moves(monkeypatch: pytest.MonkeyPatch, torch_class: str, *axes: int) -> None:
    """Let a pair move its kernel in another way."""
    moves = (Permute(axes),) if axes else ()
    pairs = [
        replace(pair, params=(replace(pair.params[0], moves=moves), *pair.params[1:]))
        if pair.torch == torch_class
        else pair
        for pair in LAYERS
    ]
    monkeypatch.setattr(port.pairs.modules, "LAYERS", tuple(pairs))


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (lambda: nn.Linear(5, 5), (3, 5), ()),
        (lambda: nn.Conv1d(3, 3, 3), (2, 3, 7), ()),
        (lambda: nn.Conv1d(3, 3, 3), (2, 3, 7), (2, 0, 1)),
        (lambda: nn.Conv2d(3, 3, 3), (2, 3, 5, 6), ()),
        (lambda: nn.Conv2d(3, 3, 3), (2, 3, 5, 6), (2, 3, 0, 1)),
        (lambda: nn.Conv2d(3, 5, 3), (2, 3, 5, 6), (3, 2, 1, 0)),
        (lambda: nn.Conv2d(8, 4, 3, groups=2), (2, 8, 5, 4), (2, 3, 0, 1)),
        (lambda: nn.Conv3d(2, 3, 2), (2, 2, 3, 3, 4), (3, 2, 4, 1, 0)),
    ],
)
def test_a_wrong_permutation_that_fits_is_seen(
    layer: Callable[[], nn.Module],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = with_random_weights(layer())
    x = torch.from_numpy(np.random.default_rng(0).normal(size=shape))
    assert difference(made, x) < TOLERANCE
    with_moves(monkeypatch, f"torch.nn.{type(made).__name__}", *axes)
    assert difference(made, x) > VISIBLE


def test_a_gradient_in_the_wrong_layout_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = layer_and_input("linear, square")
    twin = twin_of(layer)
    port.load(twin, arrays_of(layer))
    assert largest(run_torch(layer, x), run_flax(twin, x, -1)) < TOLERANCE
    with_moves(monkeypatch, "torch.nn.Linear")
    assert largest(run_torch(layer, x), run_flax(twin, x, -1)) > VISIBLE


@pytest.mark.parametrize("fault", ["eps", "momentum", "num_batches_tracked"])
def test_a_batch_norm_that_differs_in_one_number_is_seen(fault: str) -> None:
    layer, x = layer_and_input("batchnorm2d, cumulative" if fault == "num_batches_tracked" else "batchnorm2d")
    twin = twin_of(layer)
    port.load(twin, arrays_of(layer))
    if fault == "num_batches_tracked":
        twin.num_batches_tracked[...] = jnp.array(0)
    else:
        setattr(twin, fault, {"eps": 1e-1, "momentum": 1 - layer.momentum}[fault])
    assert largest(run_torch(layer, x), run_flax(twin, x, 1)) > VISIBLE


def test_same_is_not_torchs_padding_at_a_stride() -> None:
    """W3: SAME pads (0, 1) where torch's padding=1 pads (1, 1)."""
    layer = with_random_weights(nn.Conv2d(3, 5, 3, stride=2, padding=1))
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 8, 8)))
    twin = twin_of(layer)
    twin.padding = "SAME"
    port.load(twin, arrays_of(layer))
    assert largest(run_torch(layer, x), run_flax(twin, x, 1)) > VISIBLE


# %% torch's own table of modules and inputs


@pytest.fixture(scope="module")
def module_infos() -> dict[str, Any]:
    """torch's module database, by class name, without what importing it does to the process.

    It imports a package for tests of torch's own, of which nothing is used here, and freezes torch's backend flags.
    """
    stand_in = ModuleType("expecttest")
    stand_in.TestCase = TestCase  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends, "disable_global_flags", lambda: None)
        patch.setitem(sys.modules, "expecttest", stand_in)
        from torch.testing._internal.common_modules import module_db
    return {info.name: info for info in module_db}


CLASSES = [pair.torch.removeprefix("torch.") for pair in LAYERS]


@pytest.mark.parametrize(
    ("name", "training"),
    [*((name, True) for name in CLASSES), *((name, False) for name in CLASSES if "BatchNorm" in name)],
)
def test_torchs_own_sample_inputs(
    name: str, training: bool, module_infos: dict[str, Any], subtests: pytest.Subtests
) -> None:
    info = module_infos[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = info.module_inputs_func(info, "cpu", torch.float64, requires_grad=False, training=training)
    assert samples
    for sample in samples:
        arguments, options = sample.constructor_input.args, sample.constructor_input.kwargs
        layer = with_random_weights(info.module_cls(*arguments, **options))
        (x,) = (*sample.forward_input.args, *sample.forward_input.kwargs.values())
        with subtests.test(f"{arguments} {options} of {tuple(x.shape)}"):
            if training and x.numel() == 0:
                # An empty batch has no statistics: torch keeps quiet, port.nn.BatchNorm refuses.
                with pytest.raises(port.errors.UsageError, match="more than one value"):
                    difference(layer, x, training=training)
            else:
                assert difference(layer, x, training=training) < TOLERANCE
