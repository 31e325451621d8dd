"""Two models side by side in float64: outputs, running statistics, and the gradients of the input and every parameter.

What the torch side gives is carried over by the mapping of the weights, so that both are compared under Flax's paths.
A mapping only moves elements: a wrong one gives other outputs, and cannot make wrong gradients right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

from port.mapping import TORCH_ONLY, Mapping

AGREES = 1e-9
VISIBLE = 1e-4
"""What every planted fault exceeds."""
FAST = {"xla_backend_optimization_level": "0"}
"""Each model runs once: what counts is the time to compile it."""

Arrays = dict[str, np.ndarray]
NO_WEIGHTS = nnx.Not(nnx.Any(nnx.RngState, nnx.Cache, nnx.Intermediate))


@dataclass(frozen=True)
class Seen:
    """What one side gave.

    Attributes:
        output: of the model.
        input_gradient: None of tokens.
        gradients: of the parameters.
        statistics: running statistics after the run.
    """

    output: np.ndarray
    input_gradient: np.ndarray | None
    gradients: Arrays
    statistics: Arrays


def empty(make: Callable[..., Any], **given: Any) -> Any:
    """An nnx module without values, to be filled: to draw initial values would take longer than all else here."""
    return nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0), **given))


def randomise(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Every parameter and running statistic of its own: no zeros, no ones, no symmetry. In place, in float64."""
    module.double()
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                values = generator.integers(1, 9, tensor.shape)
            elif name.endswith("running_var"):
                values = generator.uniform(0.5, 1.5, tensor.shape)
            elif tensor.ndim < 2:
                values = generator.normal(0.8 if name.endswith("weight") else 0.1, 0.3, tensor.shape)
            else:
                values = generator.normal(0, (tensor.shape[0] / tensor.numel()) ** 0.5, tensor.shape)
            tensor.copy_(torch.as_tensor(values))
    return module


def random(*shape: int, seed: int = 3) -> np.ndarray:
    """Random numbers of that shape, not centred."""
    return np.random.default_rng(seed).normal(0.2, 1, shape)


def channels_last(images: np.ndarray) -> np.ndarray:
    """(N, C, H, W) → (N, H, W, C)."""
    return np.moveaxis(images, 1, -1)


def run_torch(module: torch.nn.Module, *inputs: np.ndarray) -> Seen:
    """Forward and backward, in the module's own mode; the first input is differentiated. Both names of a tied weight
    have the same gradient. The running statistics are put back."""
    tensors = [torch.from_numpy(array.copy()) for array in inputs]
    tensors[0].requires_grad_(tensors[0].is_floating_point())
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    module.zero_grad()
    output = module(*tensors)
    (output * torch.from_numpy(cotangent(output.shape))).sum().backward()
    parameters = dict(module.named_parameters(remove_duplicate=False))
    gradients = {name: parameter.grad.numpy().copy() for name, parameter in parameters.items()}
    buffers = dict(module.named_buffers())
    kept = {name: tensor.numpy().copy() for name, tensor in module.state_dict().items() if name in buffers}
    with torch.no_grad():
        for name, buffer in buffers.items():
            buffer.copy_(before[name])
    gradient = tensors[0].grad
    return Seen(output.detach().numpy(), None if gradient is None else gradient.numpy(), gradients, kept)


def run_nnx(module: nnx.Module, *inputs: np.ndarray) -> Seen:
    """The same of an nnx module, which is left as it was."""
    structure, parameters, rest = nnx.split(module, nnx.Param, ...)

    def forward(parameters: Any, *inputs: jax.Array) -> Any:
        model = nnx.merge(structure, parameters, rest, copy=True)
        output = model(*inputs)
        return output, nnx.state(model, NO_WEIGHTS)

    output, gradients, state = differentiate(forward, parameters, inputs)
    state_arrays = _dotted(nnx.to_flat_state(state))
    gradient_arrays = _dotted(nnx.to_flat_state(gradients[0]))
    statistics = {path: array for path, array in state_arrays.items() if path not in gradient_arrays}
    return Seen(output, gradients[1], gradient_arrays, statistics)


def run_linen(module: Any, variables: dict[str, Any], *inputs: np.ndarray, **options: Any) -> Seen:
    """The same of a Linen module's variables; ``options`` are its call's."""
    rest = {name: tree for name, tree in variables.items() if name not in ("params", TORCH_ONLY)}

    def forward(parameters: Any, *inputs: jax.Array) -> Any:
        return module.apply({"params": parameters, **rest}, *inputs, mutable=list(rest), **options)

    output, gradients, state = differentiate(forward, variables["params"], inputs)
    statistics = {path: array for tree in state.values() for path, array in flat(tree).items()}
    return Seen(output, gradients[1], flat(gradients[0]), statistics)


def differentiate(forward: Callable[..., Any], parameters: Any, inputs: tuple[np.ndarray, ...]) -> Any:
    """The output, (the parameters' gradients, the first input's or None), and the state of a compiled forward."""
    arrays = [jnp.asarray(array) for array in inputs]
    differentiable = jnp.issubdtype(arrays[0].dtype, jnp.floating)

    def loss(parameters: Any, first: Any, *others: jax.Array) -> Any:
        output, state = forward(parameters, first, *others)
        return (output * cotangent(output.shape)).sum(), (output, state)

    which = (0, 1) if differentiable else (0,)
    parameters = jax.tree.map(jnp.asarray, parameters)
    compiled = jax.jit(jax.value_and_grad(loss, which, has_aux=True), compiler_options=FAST)
    (_, (output, state)), gradients = compiled(parameters, *arrays)
    assert output.dtype == jnp.float64
    first = np.asarray(gradients[1]) if differentiable else None
    return np.asarray(output), (gradients[0], first), state


def output_of(module: nnx.Module, *inputs: np.ndarray) -> np.ndarray:
    """What an nnx module gives; the module is left as it was."""
    structure, state = nnx.split(module)

    def forward(state: Any, *inputs: jax.Array) -> jax.Array:
        return nnx.merge(structure, state, copy=True)(*inputs)

    return compiled_output(forward, state, *inputs)


def compiled_output(forward: Callable[..., jax.Array], *inputs: Any) -> np.ndarray:
    """What a function gives, compiled with little care."""
    return np.asarray(jax.jit(forward, compiler_options=FAST)(*jax.tree.map(jnp.asarray, inputs)))


def differences(torch_side: Seen, flax_side: Seen, mapping: Mapping, *, images: bool = True) -> dict[str, float]:
    """The largest difference of each tensor, relative to its largest value, or to 1e-2 where all are smaller.

    Args:
        torch_side: with torch's keys.
        flax_side: with Flax's paths.
        mapping: from these to those.
        images: whether the inputs are (N, C, H, W) on the torch side and (N, H, W, C) on Flax's.
    """
    seen = {"output": difference(flax_side.output, torch_side.output)}
    if torch_side.input_gradient is not None and flax_side.input_gradient is not None:
        expected = channels_last(torch_side.input_gradient) if images else torch_side.input_gradient
        seen["gradient of the input"] = difference(flax_side.input_gradient, expected)
    carried = mapping({**torch_side.gradients, **torch_side.statistics})
    homeless = {path for entry in mapping.entries if entry.collection == TORCH_ONLY for path in entry.targets}
    expected_paths = set(carried) - homeless
    got = {**flax_side.gradients, **flax_side.statistics}
    assert set(got) == expected_paths, set(got) ^ expected_paths
    return seen | {path: difference(array, carried[path]) for path, array in got.items()}


def worst(seen: dict[str, float]) -> tuple[str, float]:
    """The tensor that differs most."""
    return max(seen.items(), key=lambda item: item[1])


def difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Relative to the largest expected value, or to 1e-2: a key's bias in attention has a gradient of rounding alone.

    Infinity where anything is not finite.
    """
    assert got.shape == expected.shape, (got.shape, expected.shape)
    largest = float(np.abs(got - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-2))
    return largest if np.isfinite(largest) else np.inf


def cotangent(shape: Any) -> np.ndarray:
    """What the output is weighted with before it is summed."""
    return np.random.default_rng(99).normal(0.3, 1, tuple(shape))


def flat(tree: Any, above: str = "") -> Arrays:
    """A nested dict's arrays under dotted paths."""
    if not isinstance(tree, dict):
        return {above: np.asarray(tree)}
    return {
        path: array
        for name, value in tree.items()
        for path, array in flat(value, f"{above}.{name}" if above else name).items()
    }


def _dotted(state: Any) -> Arrays:
    return {".".join(map(str, path)): np.asarray(variable[...]) for path, variable in state}
