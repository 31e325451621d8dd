"""Every loss of torch.nn against its twin, on the samples of torch's own tests of modules, in float64."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about what this machine lacks
    from torch.testing._internal.common_modules import module_db

import port.nn.functional
from port.errors import NoPair
from port.pairs import LayerPair, build_twin, twin_pair
from port.pairs.losses import FUNCTIONS, PAIRS, reduction_of

OUTPUT = 1e-10
GRADIENT = 1e-9

LOSSES = {info.module_cls.__name__: info for info in module_db if info.module_cls.__name__.endswith("Loss")}

# torch warns of its own arguments, and of shapes that broadcast.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@dataclass
class Sample:
    module: torch.nn.Module
    inputs: tuple[Any, ...]


@cache
def samples(name: str) -> list[Sample]:
    torch.manual_seed(3)
    info = LOSSES[name]
    found = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=True)
    return [
        Sample(info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs), given.args)
        for sample in found
        for given in [sample.forward_input]
    ]


# %% Both sides of one sample


def run_torch(module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    """The output, the gradient of each input that has one, and of each parameter."""
    given = [leaf(x) for x in inputs]
    output = module(*given)
    output = output.loss if isinstance(output, tuple) else output
    wanted = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
    wanted += list(module.parameters())
    gradients = torch.autograd.grad(output, wanted, torch.from_numpy(cotangent(output.shape)), allow_unused=True)
    zeros = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, gradients, strict=True)]
    return [output.detach().numpy(), *(gradient.numpy() for gradient in zeros)]


def leaf(x: Any) -> Any:
    """A copy that gathers a gradient, if the sample's own is to: torch gives none for some targets."""
    return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x


def cotangent(shape: Any) -> np.ndarray:
    return np.random.default_rng(99).normal(0.3, 1, tuple(shape))


def run_twin(module: torch.nn.Module, inputs: tuple[Any, ...], **faults: Any) -> list[np.ndarray]:
    """The same of the twin, in torch's layout."""
    pair = twin_pair(module)
    twin = build_twin(module, param_dtype=jnp.float64)
    axis = [class_axis(pair, i, x) for i, x in enumerate(inputs)]
    given = [
        jnp.asarray(x if a is None else np.moveaxis(x, a, -1)) if isinstance(x, np.ndarray) else x
        for x, a in zip([array(x) for x in inputs], axis, strict=True)
    ]
    floats = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    buffers = {p.flax: jnp.asarray(array(getattr(module, p.torch))) for p in held(pair, module)}
    parameters: Any = ()
    if isinstance(twin, nnx.Module):
        for name, value in buffers.items():
            np.testing.assert_array_equal(getattr(twin, name)[...], value)
        put_parameters(twin, {name: array(p) for name, p in module.named_parameters()})
        structure, parameters, rest = nnx.split(twin, nnx.Param, ...)

    def loss(parameters: Any, differentiated: list[jax.Array]) -> jax.Array:
        arguments = list(given)
        for i, x in zip(floats, differentiated, strict=True):
            arguments[i] = x
        if isinstance(twin, nnx.Module):
            output = nnx.merge(structure, parameters, rest, copy=True)(*arguments)
            return output.loss if isinstance(output, tuple) else output
        return partial(twin, **(buffers | faults))(*arguments)

    # Not optimised: these tests compile far more than they compute.
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def run(parameters: Any, differentiated: list[jax.Array]) -> tuple[jax.Array, Any]:
        output, pull_back = jax.vjp(loss, parameters, differentiated)
        return output, pull_back(jnp.asarray(cotangent(output.shape)))

    output, (of_parameters, of_inputs) = run(parameters, [given[i] for i in floats])
    gradients = [g if axis[i] is None else jnp.moveaxis(g, -1, axis[i]) for i, g in zip(floats, of_inputs, strict=True)]
    if isinstance(twin, nnx.Module):
        like_twin = nnx.merge(structure, of_parameters, rest, copy=True)
        gradients += [take_parameter(like_twin, name) for name, _ in module.named_parameters()]
    return [np.asarray(x) for x in (output, *gradients)]


def class_axis(pair: LayerPair, position: int, x: Any) -> int | None:
    """Where an input has its classes, if the twin has them elsewhere: labels, which are integers, have none."""
    if pair.channels is None or position not in (pair.channel_inputs or ()) or not x.is_floating_point():
        return None
    return min(pair.channels, x.ndim - 1)


def held(pair: LayerPair, module: torch.nn.Module) -> list[Any]:
    return [p for p in pair.params_of_torch(module) if getattr(module, p.torch) is not None]


def array(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x


def variable_of(twin: nnx.Module, key: str) -> nnx.Variable:
    """`tail.0.1.weight` → the variable of that linear layer."""
    *path, name = key.split(".")
    for part in path:
        twin = twin.layers if isinstance(twin, nnx.Sequential) else twin
        twin = twin[int(part)] if part.isdigit() else getattr(twin, part)
    return twin.kernel if name == "weight" else twin.bias


def put_parameters(twin: nnx.Module, values: dict[str, np.ndarray]) -> None:
    for key, value in values.items():
        variable_of(twin, key)[...] = jnp.asarray(value.T)


def take_parameter(twin: nnx.Module, key: str) -> jax.Array:
    return variable_of(twin, key)[...].T


def differences(got: list[np.ndarray], expected: list[np.ndarray]) -> list[float]:
    """Relative to the largest expected value, each; infinite where NaNs or infinities are in other places."""
    assert [x.shape for x in got] == [x.shape for x in expected]
    seen = []
    for ours, theirs in zip(got, expected, strict=True):
        finite = np.isfinite(theirs)
        same = np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) and np.isfinite(ours[finite]).all()
        largest = np.abs(theirs[finite]).max(initial=0) or 1
        seen.append(float(np.abs(ours[finite] - theirs[finite]).max(initial=0) / largest) if same else math.inf)
    return seen


def check(sample: Sample) -> tuple[float, float]:
    output, *gradients = differences(run_twin(sample.module, sample.inputs), run_torch(sample.module, sample.inputs))
    assert output <= OUTPUT, sample.module
    assert max(gradients, default=0) <= GRADIENT, (sample.module, gradients)
    return output, max(gradients, default=0)


# %% torch's own samples


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.thin(2)
def test_one_sample(name: str) -> None:
    check(samples(name)[-1])


@pytest.mark.daily(3)
# Chunks of two rows, with class weights and ignored labels, are many; each of these parts is a minute.
@pytest.mark.sweep
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("name", LOSSES)
def test_every_sample(name: str, part: int) -> None:
    for sample in samples(name)[part::8]:
        check(sample)


# %% What torch's samples leave out


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    values = np.random.default_rng([seed, *shape]).normal(0.2, 1.3, shape)
    return torch.from_numpy(values).requires_grad_()


def labels(classes: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(5).integers(0, classes, shape))


WEIGHT = torch.tensor([0.5, 2.0, 1.25, 3.0], dtype=torch.float64)

OTHERS: dict[str, Callable[[], Sample]] = {
    "triplet": lambda: Sample(
        torch.nn.TripletMarginLoss(2.5, p=3, swap=True), tuple(tensor(7, 4, seed=i) for i in range(3))
    ),
    "triplet with a distance": lambda: Sample(
        torch.nn.TripletMarginWithDistanceLoss(margin=1.5, swap=True, reduction="sum"),
        tuple(tensor(7, 4, seed=i) for i in range(3)),
    ),
    "triplet with another distance": lambda: Sample(
        torch.nn.TripletMarginWithDistanceLoss(distance_function=torch.nn.PairwiseDistance(p=1.0), margin=1.5),
        tuple(tensor(7, 4, seed=i) for i in range(3)),
    ),
    "adaptive softmax": lambda: Sample(
        torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [3, 8, 15], div_value=2.0, head_bias=True, dtype=torch.float64),
        (tensor(9, 16), torch.tensor([0, 2, 3, 7, 8, 14, 15, 19, 5])),
    ),
    "images": lambda: Sample(
        torch.nn.NLLLoss(weight=WEIGHT, ignore_index=2), (tensor(3, 4, 5, 2).log_softmax(1), labels(4, 3, 5, 2))
    ),
    "probabilities of places": lambda: Sample(
        torch.nn.LinearCrossEntropyLoss(5, 4, out_features=(4, 4), weight=WEIGHT, dtype=torch.float64),
        (tensor(7, 5), tensor(7, 4, 4, 4).softmax(1)),
    ),
    "probabilities of images": lambda: Sample(
        torch.nn.CrossEntropyLoss(WEIGHT), (tensor(4, 4, 4, 4), tensor(4, 4, 4, 4, seed=1).softmax(1))
    ),
    "square images": lambda: Sample(torch.nn.CrossEntropyLoss(WEIGHT), (tensor(4, 4, 4, 4), labels(4, 4, 4, 4))),
    "pos_weight": lambda: Sample(
        torch.nn.BCEWithLogitsLoss(pos_weight=WEIGHT), (tensor(3, 4), tensor(3, 4, seed=1).sigmoid())
    ),
    "deprecated arguments": lambda: Sample(torch.nn.MSELoss(size_average=False), (tensor(3, 4), tensor(3, 4, seed=1))),
    "deprecated arguments, too": lambda: Sample(torch.nn.MSELoss(reduce=False), (tensor(3, 4), tensor(3, 4, seed=1))),
    "deprecated word": lambda: Sample(
        torch.nn.L1Loss(reduction="elementwise_mean"), (tensor(3, 4), tensor(3, 4, seed=1))
    ),
    "class weights and a bias": lambda: Sample(
        torch.nn.LinearCrossEntropyLoss(5, 4, out_features=(3, 2), bias=True, weight=WEIGHT, dtype=torch.float64),
        (tensor(7, 5), labels(4, 7, 3, 2)),
    ),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@pytest.mark.thin(6)
def test_others(make: Callable[[], Sample]) -> None:
    check(make())


def test_deprecated_2d() -> None:
    check(Sample(torch.nn.NLLLoss2d(ignore_index=1), (tensor(3, 4, 5, 2).log_softmax(1), labels(4, 3, 5, 2))))


FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "class weights forgotten": ("images", {"weight": None}),
    "ignored label counted": ("images", {"ignore_index": -100}),
    "class weights in another order": ("square images", {"weight": jnp.array([2.0, 0.5, 1.25, 3.0])}),
    "positive weight forgotten": ("pos_weight", {"pos_weight": None}),
    "reduction": ("deprecated arguments", {"reduction": "mean"}),
    "swap": ("triplet", {"swap": False}),
}


@pytest.mark.parametrize(("case", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(case: str, fault: dict[str, Any]) -> None:
    sample = OTHERS[case]()
    seen = differences(run_twin(sample.module, sample.inputs, **fault), run_torch(sample.module, sample.inputs))
    assert max(seen) > 1e-3


# %% The tables


def test_every_loss_of_torch_has_a_pair() -> None:
    from torch.nn.modules import loss

    # NLLLoss2d inherits NLLLoss's forward, and so its pair.
    wanted = {f"torch.nn.{name}" for name in loss.__all__} - {"torch.nn.NLLLoss2d"}
    assert wanted | {"torch.nn.AdaptiveLogSoftmaxWithLoss"} == {pair.torch for pair in PAIRS}


def test_every_function_of_torch_has_a_pair() -> None:
    functions = torch.nn.functional
    wanted = {
        name
        for name in vars(functions)
        if name.endswith(("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div")) and not name.startswith("_")
    }
    assert wanted == {pair.torch.rpartition(".")[2] for pair in FUNCTIONS}


@pytest.mark.parametrize("pair", FUNCTIONS, ids=lambda pair: pair.torch.rpartition(".")[2])
def test_arguments_have_one_name(pair: Any) -> None:
    name = pair.torch.rpartition(".")[2]
    theirs = inspect.signature(getattr(torch.nn.functional, name)).parameters
    ours = inspect.signature(getattr(port.nn.functional, name)).parameters
    # How to chunk is an object of torch's, and a number here.
    renamed = {"options": "chunk_size"}
    wanted = {renamed.get(name, name): value.default for name, value in theirs.items()}
    wanted = {name: value for name, value in wanted.items() if name not in ("size_average", "reduce")}
    assert {name: value.default for name, value in ours.items()} == wanted


@pytest.mark.parametrize("reduce", [None, False, True])
@pytest.mark.parametrize("size_average", [None, False, True])
def test_reduction_of(size_average: bool | None, reduce: bool | None) -> None:
    module = torch.nn.L1Loss(size_average=size_average, reduce=reduce, reduction="sum")
    assert reduction_of(size_average, reduce, "sum") == module.reduction


def test_a_distance_without_a_twin_is_refused() -> None:
    def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x - y).abs().amax(-1)

    module = torch.nn.TripletMarginWithDistanceLoss(distance_function=distance)
    with pytest.raises(NoPair, match=r"distance at .*, has no twin"):
        build_twin(module)
