"""A torch module and its twin beside each other in float64: outputs, and gradients of inputs and parameters."""

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

Differences = dict[str, float]
# Not optimised: what is run here is run once, and compiling it takes longer than running it.
jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
RENAMED = {(nnx.Linear, "weight"): "kernel", (nnx.LayerNorm, "weight"): "scale"}


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def twin_of(float64: None) -> Callable[..., Any]:
    return make_twin


@pytest.fixture
def differences(float64: None) -> Callable[..., Differences]:
    return run_both


def slot(twin: Any, key: str) -> tuple[nnx.Variable, bool]:
    """The twin's variable of a torch state-dict key, and whether its axes are the other way round."""
    *path, name = key.split(".")
    for part in path:
        twin = twin[int(part)] if part.isdigit() else getattr(twin, part)
    variable = getattr(twin, RENAMED.get((type(twin), name), name))
    return variable, isinstance(twin, nnx.Linear) and name == "weight"


def make_twin(cls: Any, module: torch.nn.Module, *arguments: Any, **options: Any) -> Any:
    """Gives the torch module random parameters, makes a twin of ``cls``, and carries the parameters over by name.

    ``cls`` may be any function that makes the twin, of ``arguments`` and of keywords, ``param_dtype`` and ``rngs`` too.
    """
    # The shapes alone: drawing initial values that are replaced at once takes longer than most of the tests.
    twin = nnx.eval_shape(lambda: cls(*arguments, **({"param_dtype": jnp.float64, "rngs": nnx.Rngs(0)} | options)))
    for number, (_, node) in enumerate(nnx.iter_graph(twin)):
        if isinstance(node, nnx.RngStream):
            node.key.set_value(jax.random.key(number))
            node.count.set_value(jnp.zeros((), jnp.uint32))
    generator = np.random.default_rng(7)
    filled = 0
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            values = generator.normal(0.1, 0.6, parameter.shape)
            parameter.copy_(torch.from_numpy(values))
            variable, transposed = slot(twin, key)
            assert variable.shape == (values.T if transposed else values).shape, key
            variable.set_value(jnp.asarray(values.T if transposed else values))
            filled += values.size
    assert filled == sum(leaf.size for leaf in jax.tree.leaves(nnx.state(twin, nnx.Param)))
    return twin


def run_both(
    module: torch.nn.Module,
    twin: Any,
    *inputs: Any,
    theirs: Any = None,
    ours: Any = None,
    gradients: bool = True,
    **options: Any,
) -> Differences:
    """The largest relative difference of each output, of each input's gradient, and of each parameter's.

    Args:
        module: torch's.
        twin: ours, with the same parameters.
        inputs: arrays, tuples of arrays or None; floating ones get a gradient.
        theirs: the call of the torch module, if it is not ``module(*inputs, **options)``.
        ours: the call of the twin, likewise.
        gradients: False for the outputs alone.
        options: keyword arguments of both calls; arrays among them are no inputs to differentiate.
    """
    expected = run_torch(module, theirs or module, inputs, options)
    got = run_twin(module, twin, ours, inputs, options, gradients)
    assert gradients is (expected.keys() == got.keys())
    return {name: difference(got[name], expected[name]) for name in got}


def difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Relative to the largest expected value, or to 1e-2 where all are smaller: some gradients are rounding alone."""
    assert got.shape == expected.shape, (got.shape, expected.shape)
    if (np.isnan(got) != np.isnan(expected)).any():
        return np.inf
    got, expected = np.nan_to_num(got), np.nan_to_num(expected)
    return float(np.abs(got - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-2))


def run_torch(module: torch.nn.Module, call: Any, inputs: tuple[Any, ...], options: Any) -> dict[str, np.ndarray]:
    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.copy()).requires_grad_(array.dtype.kind == "f")

    tensors = jax.tree.map(tensor, inputs)
    module.zero_grad()
    outputs = jax.tree.leaves(call(*tensors, **jax.tree.map(as_tensor, options)))
    sum((output * as_tensor(cotangent(output.shape))).sum() for output in outputs).backward()
    seen = {f"output {i}": output.detach().numpy() for i, output in enumerate(outputs)}
    leaves = [leaf for leaf in jax.tree.leaves(tensors) if leaf.requires_grad]
    seen |= {f"gradient of input {i}": gradient_or_zeros(leaf) for i, leaf in enumerate(leaves)}
    return seen | {f"gradient of {key}": gradient_or_zeros(value) for key, value in module.named_parameters()}


def run_twin(
    module: torch.nn.Module, twin: Any, call: Any, inputs: tuple[Any, ...], options: Any, with_gradients: bool
) -> dict[str, np.ndarray]:
    structure, parameters, rest = nnx.split(twin, nnx.Param, ...)
    leaves, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, inputs))
    floats = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    options = {name: jnp.asarray(o) if isinstance(o, np.ndarray) else o for name, o in options.items()}

    def loss(parameters: Any, differentiated: list[jax.Array]) -> tuple[jax.Array, Any]:
        arguments = list(leaves)
        for i, leaf in zip(floats, differentiated, strict=True):
            arguments[i] = leaf
        model = nnx.merge(structure, parameters, rest, copy=True)
        outputs = jax.tree.leaves((call or type(twin).__call__)(model, *tree.unflatten(arguments), **options))
        return sum(((output * cotangent(output.shape)).sum() for output in outputs), jnp.zeros(())), outputs

    differentiated = [leaves[i] for i in floats]
    if not with_gradients:
        outputs = jit(lambda *arguments: loss(*arguments)[1])(parameters, differentiated)
        return {f"output {i}": np.asarray(output) for i, output in enumerate(outputs)}
    (_, outputs), gradients = jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(parameters, differentiated)
    seen = {f"output {i}": np.asarray(output) for i, output in enumerate(outputs)}
    seen |= {f"gradient of input {i}": np.asarray(gradient) for i, gradient in enumerate(gradients[1])}
    like_twin = nnx.merge(structure, gradients[0], rest, copy=True)
    for key, _ in module.named_parameters():
        variable, transposed = slot(like_twin, key)
        array = np.asarray(variable[...])
        assert array.dtype == np.float64, key
        seen[f"gradient of {key}"] = array.T if transposed else array
    return seen


def cotangent(shape: Any) -> np.ndarray:
    return np.random.default_rng(99).normal(0.3, 1, tuple(shape))


def as_tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def gradient_or_zeros(tensor: torch.Tensor) -> np.ndarray:
    return (torch.zeros_like(tensor) if tensor.grad is None else tensor.grad).detach().numpy()
