"""A torch layer and the twin that its pair names, beside each other in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.pairs import LayerPair, ParamPair, build_twin, pairs_of_flax, pairs_of_torch, twin_pair

Arrays = dict[str, np.ndarray]


@pytest.fixture
def sides() -> Iterator[type[Sides]]:
    """`Sides`, with 64-bit types on the JAX side."""
    with jax.enable_x64(True):
        yield Sides


@pytest.fixture(scope="session")
def samples() -> Callable[..., list[Any]]:
    """torch's own constructor arguments and inputs for a module, by the name that its module database has for it."""
    with pytest.MonkeyPatch.context() as patch:
        # Importing the database freezes torch's backend flags.
        patch.setattr(torch.backends, "disable_global_flags", lambda: None)
        from torch.testing._internal.common_modules import module_db
    infos = {info.name.removeprefix("nn."): info for info in module_db}

    def of(name: str, training: bool) -> list[Any]:
        info = infos[name]
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return info.module_inputs_func(
                info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
            )

    return of


@dataclass
class Sides:
    """A torch layer with random weights and statistics, and its twin with the same.

    Attributes:
        layer: torch's, made random and moved to float64.
        attributes: what the twin is told otherwise than the pair tells it: a fault.
        moves: moves that are not as the pair has them, by torch's name: a fault.
        prepare: changes the random weights, where they have to be of some kind.
        flax: another of the layer's pairs than its twin's, by Flax's name, and what makes the module from ``rngs``.
    """

    layer: torch.nn.Module
    attributes: dict[str, Any] = field(default_factory=dict)
    moves: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[torch.nn.Module], None] = lambda layer: None
    flax: tuple[str, Callable[..., nnx.Module]] | None = None

    def __post_init__(self) -> None:
        self.layer = randomise(self.layer.to(torch.float64))
        with torch.no_grad():
            self.prepare(self.layer)
        if self.flax is None:
            # Its initial values are not computed: drawing them takes longer than all else here.
            self.pair = twin_pair(self.layer)
            self.twin = nnx.eval_shape(partial(build_twin, self.layer, param_dtype=jnp.float64))
        else:
            name, make = self.flax
            self.twin = nnx.eval_shape(lambda: make(rngs=nnx.Rngs(0)))
            self.pair = other_pair(self.layer, name, self.twin)
        for name, value in self.attributes.items():
            setattr(self.twin, name, value)
        state = self.state()
        for param in self.params:
            moves = self.moves.get(param.torch, param.moves)
            arrays = moved(tuple(state[name] for name in param.torch_names), moves)
            for path, array in zip(param.flax_names, arrays, strict=True):
                variable = attrgetter(path)(self.twin)
                assert variable.shape == array.shape, f"{path} {variable.shape}, from torch {array.shape}"
                variable.set_value(jnp.asarray(array, variable.dtype))

    @property
    def params(self) -> list[ParamPair]:
        """The pair's parameters that the layer has."""
        state = self.state()
        params = self.pair.params_of_flax(self.twin) if self.flax else self.pair.params_of_torch(self.layer)
        return [param for param in params if set(param.torch_names) <= set(state)]

    def state(self) -> Arrays:
        return {name: tensor.detach().numpy().copy() for name, tensor in self.layer.state_dict().items()}

    def check_weights(self) -> None:
        """Every tensor has a place on the other side, both sides say the same one, and it comes back bit for bit."""
        state = self.state()
        read = {name for param in self.params for name in param.torch_names} | set(self.pair.torch_only)
        assert read >= set(state)
        ours = {".".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(self.twin, nnx.Not(nnx.RngState)))}
        assert {path for param in self.params for path in param.flax_names} == ours
        told = [pair.params_of_flax(self.twin) for pair in pairs_of_flax(self.twin)]
        assert self.pair.params_of_torch(self.layer) in told
        for param in self.params:
            arrays = tuple(np.asarray(attrgetter(path)(self.twin)[...]) for path in param.flax_names)
            back = moved(arrays, tuple(move.inverse() for move in reversed(param.moves)))
            for name, array in zip(param.torch_names, back, strict=True):
                assert array.tobytes() == state[name].astype(array.dtype).tobytes(), name
                assert array.shape == state[name].shape

    def difference(self, *inputs: Any, steps: int = 3, **options: Any) -> float:
        """The largest difference of anything that comes out of training for some steps and one evaluation.

        Outputs, gradients of inputs and parameters, and all parameters and buffers afterwards; each relative to its
        own largest value, or to 1 where all are smaller. The first step takes the inputs, the others more of them.
        """
        theirs, ours = copied(self.layer), nnx.clone(self.twin)
        worst = 0.0
        for step in [*range(steps), None]:
            theirs.train(step is not None)
            (ours.train if step is not None else ours.eval)()
            given = tuple(vary(value, step or 0) for value in inputs)
            expected, got = run_torch(theirs, given, options), self._run_twin(ours, given, options)
            worst = max(worst, largest(expected, got))
        return worst

    def _run_twin(self, twin: nnx.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Arrays:
        channels, taken = self.pair.channels, self.pair.channel_inputs
        axes = tuple(
            channels if channels is not None and (taken is None or i in taken) else None for i in range(len(inputs))
        )
        graphdef, params, rest = nnx.split(twin, nnx.Param, ...)
        arrays = tuple(to_numpy(value) for value in inputs)
        out = channels if self.pair.channel_outputs else None
        frozen = tuple(sorted(options.items()))
        y, of_params, of_inputs, after = step(graphdef, params, rest, arrays, axes, out, frozen)
        nnx.update(twin, after)
        seen = {"output": np.asarray(y)}
        seen |= {f"gradient of input {i}": np.asarray(gradient) for i, gradient in of_inputs.items()}
        seen |= {f"gradient of {name}": array for name, array in self._in_torch(of_params).items()}
        return seen | self._in_torch(after)

    def _in_torch(self, state: nnx.State) -> Arrays:
        flat = {".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(state)}
        carried: Arrays = {}
        for param in self.params:
            if set(param.flax_names) <= set(flat):
                arrays = tuple(flat[path] for path in param.flax_names)
                moves = self.moves.get(param.torch, param.moves)
                back = moved(arrays, tuple(move.inverse() for move in reversed(moves)))
                carried |= dict(zip(param.torch_names, back, strict=True))
        return carried


def other_pair(layer: torch.nn.Module, flax: str, module: Any) -> LayerPair:
    """The pair of a torch layer and a Flax module that is not its twin."""
    (pair,) = (pair for pair in pairs_of_torch(layer) if pair.flax == flax and pair.fits_flax(module))
    assert pair in pairs_of_flax(module)
    return pair


def linen_variables(layer: torch.nn.Module, module: Any) -> dict[str, Any]:
    """A torch layer's weights as a Linen module's variables."""
    pair = other_pair(layer, f"flax.linen.{type(module).__name__}", module)
    state = {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}
    variables: dict[str, Any] = {}
    for param in pair.params_of_flax(module):
        if param.torch in state:
            (array,) = moved((state[param.torch],), param.moves)
            variables.setdefault(param.collection, {})[param.flax] = jnp.asarray(array)
    carried = {name for param in pair.params for name in param.torch_names} | set(pair.torch_only)
    assert set(state) <= carried
    return variables


def copied(layer: torch.nn.Module) -> torch.nn.Module:
    # A weight that a hook has computed is no leaf, which cannot be copied; it is computed anew at the next call.
    for name, value in vars(layer).items():
        if isinstance(value, torch.Tensor):
            setattr(layer, name, value.detach())
    return deepcopy(layer)


@pytest.fixture
def linen() -> Callable[[torch.nn.Module, Any], dict[str, Any]]:
    return linen_variables


# Not optimised: these tests compile far more than they compute.
@partial(jax.jit, static_argnums=(0, 4, 5, 6), compiler_options={"xla_backend_optimization_level": 0})
def step(
    graphdef: Any, params: Any, rest: Any, inputs: tuple[Any, ...], axes: tuple[Any, ...], out: Any, options: Any
) -> tuple[Any, ...]:
    """Output (in torch's layout), gradients, and the state afterwards."""
    floats = {
        i: jnp.asarray(x) for i, x in enumerate(inputs) if x is not None and jnp.issubdtype(x.dtype, jnp.floating)
    }

    def call(params: Any, floats: dict[int, jax.Array]) -> tuple[jax.Array, Any]:
        model = nnx.merge(graphdef, params, rest, copy=True)
        given = [floats.get(i, x) for i, x in enumerate(inputs)]
        given = [x if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in zip(given, axes, strict=True)]
        y = model(*given, **dict(options))
        return y if out is None else jnp.moveaxis(y, -1, out), nnx.state(model)

    y, pull_back, after = jax.vjp(call, params, floats, has_aux=True)
    return y, *pull_back(jnp.asarray(cotangent(y.shape))), after


def run_torch(layer: torch.nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Arrays:
    inputs = tuple(
        value.detach().clone().requires_grad_(value.is_floating_point()) if isinstance(value, torch.Tensor) else value
        for value in inputs
    )
    layer.zero_grad()
    y = layer(*inputs, **options)
    y.backward(torch.from_numpy(cotangent(y.shape)))
    seen = {"output": y}
    seen |= {
        f"gradient of input {i}": value.grad
        for i, value in enumerate(inputs)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }
    seen |= {f"gradient of {name}": parameter.grad for name, parameter in layer.named_parameters()}
    seen |= layer.state_dict()
    return {name: tensor.detach().numpy().copy() for name, tensor in seen.items()}


def largest(expected: Arrays, got: Arrays) -> float:
    assert set(expected) == set(got)
    worst = 0.0
    for name, array in expected.items():
        assert got[name].shape == array.shape, name
        if array.size:
            assert np.isfinite(array).all() and np.isfinite(got[name]).all(), name
            worst = max(worst, float(np.abs(array - got[name]).max() / max(1.0, np.abs(array).max())))
    return worst


def cotangent(shape: Any) -> np.ndarray:
    """Random: the gradient of a plain sum would hide much."""
    return np.random.default_rng(2).normal(size=tuple(shape))


def moved(arrays: tuple[np.ndarray, ...], moves: Any) -> tuple[np.ndarray, ...]:
    for move in moves:
        arrays = move(arrays)
    return arrays


def vary(value: Any, step: int) -> Any:
    """Another input for every step; integers are indices, and stay."""
    if step and isinstance(value, torch.Tensor) and value.is_floating_point():
        generator = torch.Generator().manual_seed(step)
        return value.detach() * 0.5 + torch.randn(value.shape, dtype=value.dtype, generator=generator)
    return value


def to_numpy(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def randomise(layer: torch.nn.Module) -> torch.nn.Module:
    """Nothing zero, one or symmetric: every parameter and buffer takes part."""
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
