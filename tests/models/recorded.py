"""Two models on both sides, one recorded sequence of gradients, and both optimizers stepped by it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from flax import nnx

import port
from port.mapping import Entry, Mapping
from port.moves import Permute, Split, Stack
from port.nn import BatchNorm
from port.optim.layout import flax_like, torch_named

STEPS = 60


class TorchMlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = torch.nn.Linear(5, 7)
        self.fc2 = torch.nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.tanh(self.fc1(x)))


class FlaxMlp(nnx.Module):
    def __init__(self) -> None:
        self.fc1 = nnx.Linear(5, 7, rngs=nnx.Rngs(0), param_dtype=jnp.float64)
        self.fc2 = nnx.Linear(7, 3, rngs=nnx.Rngs(0), param_dtype=jnp.float64)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.fc2(jnp.tanh(self.fc1(x)))


class TorchConvNet(torch.nn.Module):
    """No bias before the BatchNorm: its gradient would be rounding alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 6, (3, 2), bias=False)
        self.norm = torch.nn.BatchNorm2d(6)
        self.out = torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.norm(self.conv(x.reshape(-1, 2, 5, 4)))).mean((2, 3)))


class FlaxConvNet(nnx.Module):
    def __init__(self) -> None:
        given: dict[str, Any] = {"rngs": nnx.Rngs(0), "param_dtype": jnp.float64}
        self.conv = nnx.Conv(2, 6, (3, 2), padding="VALID", use_bias=False, **given)
        self.norm = BatchNorm(6, **given)
        self.out = nnx.Linear(6, 3, **given)

    def __call__(self, x: jax.Array) -> jax.Array:
        images = x.reshape(-1, 2, 5, 4).transpose(0, 2, 3, 1)
        return self.out(nnx.relu(self.norm(self.conv(images))).mean((1, 2)))


@dataclass
class Recorded:
    """A torch model, its Flax twin's parameters, what joins them, and gradients for `STEPS` updates."""

    module: torch.nn.Module
    params: Any
    mapping: Mapping
    gradients: list[dict[str, torch.Tensor]]
    losses: list[float] = field(default_factory=list)
    model: nnx.Module | None = None
    batches: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def fresh(self) -> torch.nn.Module:
        return copy.deepcopy(self.module)

    def to_flax(self, named: dict[str, torch.Tensor]) -> Any:
        return flax_like({name: jnp.asarray(value.numpy()) for name, value in named.items()}, self.params, self.mapping)

    def to_torch(self, tree: Any) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in torch_named(tree, self.mapping).items()}


def record(torch_class: type[torch.nn.Module], flax_class: type[nnx.Module], features: int) -> Recorded:
    """The gradients of a real run, away from 0, on random data that each side could have seen."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = torch_class().double()
        inputs, targets = torch.randn(STEPS, 16, features).double(), torch.randint(0, 3, (STEPS, 16))
    walker = copy.deepcopy(module)
    optimizer = torch.optim.SGD(walker.parameters(), lr=0.3, momentum=0.8)
    gradients, losses = [], []
    for x, y in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(walker(x), y)
        loss.backward()
        gradients.append({name: p.grad.clone() for name, p in walker.named_parameters()})
        losses.append(loss.item())
        optimizer.step()
    model = flax_class()
    port.load(model, module.state_dict())
    return Recorded(
        module,
        nnx.state(model, nnx.Param),
        port.mapping.between(module, model),
        gradients,
        losses,
        model,
        list(zip(inputs, targets, strict=True)),
    )


def mlp() -> Recorded:
    return record(TorchMlp, FlaxMlp, 5)


def convnet() -> Recorded:
    return record(TorchConvNet, FlaxConvNet, 40)


@contextmanager
def doubles() -> Iterator[None]:
    """float64 on the JAX side."""
    with jax.enable_x64(True):
        yield


def torch_step(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    gradients: dict[str, torch.Tensor],
    before: Callable[[], object] = lambda: None,
) -> None:
    """One update by recorded gradients; ``before`` may clip them."""
    for name, parameter in module.named_parameters():
        parameter.grad = gradients[name].to(parameter.dtype).clone() if parameter.requires_grad else None
    before()
    optimizer.step()


def flax_steps(transformation: optax.GradientTransformation) -> Callable[..., Any]:
    """(gradients, state, params) → (params, state), compiled."""

    @jax.jit
    def step(gradients: Any, state: Any, params: Any, **extra: Any) -> Any:
        updates, state = transformation.update(gradients, state, params, **extra)
        return optax.apply_updates(params, updates), state

    return step


def distance(ours: dict[str, np.ndarray], module: torch.nn.Module) -> float:
    """The largest relative difference of a tensor: norm of the difference over the norm; NaN where one is no number."""
    differences = [0.0]
    for name, parameter in module.named_parameters():
        theirs = parameter.detach().numpy()
        differences.append(float(np.linalg.norm(ours[name] - theirs) / max(np.linalg.norm(theirs), 1e-30)))
    return float(np.max(differences))  # Python's max would lose a NaN


def state_distance(optimizer: torch.optim.Optimizer, other: torch.optim.Optimizer) -> float:
    """The largest relative difference of a state's tensor; infinite where one lacks what the other has."""
    worst = 0.0
    ours, theirs = optimizer.state_dict()["state"], other.state_dict()["state"]
    for place, state in theirs.items():
        for key, value in state.items():
            if value is None:
                continue
            if key not in ours.get(place, {}):
                return float("inf")
            a, b = (torch.as_tensor(v).double() for v in (ours[place][key], value))
            scale = b.norm().item() or 1.0
            worst = float(np.maximum(worst, (a - b).norm().item() / scale))
    return worst


class Loose(torch.nn.Module):
    """Parameters that Flax keeps otherwise: three in one, one of two."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        draw = lambda *shape: torch.nn.Parameter(torch.randn(shape, generator=generator).double())  # noqa: E731
        self.qkv = draw(9, 4)
        self.one, self.two = draw(5, 3), draw(5, 3)
        self.bias = draw(6)


LOOSE = Mapping(
    (
        Entry(("qkv",), ("q", "k", "v"), (Split(0, (3, 3, 3)), Permute((1, 0)))),
        Entry(("one", "two"), ("stack",), (Permute((1, 0)), Stack(0, 2))),
        Entry(("bias",), ("bias",)),
    )
)


def loose() -> Recorded:
    """Parameters that Flax keeps otherwise, and random gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        module = Loose()
        gradients = [{name: torch.randn_like(p) for name, p in module.named_parameters()} for _ in range(STEPS)]
    arrays = {name: p.detach().numpy() for name, p in module.named_parameters()}
    params = {path: jnp.asarray(array) for path, array in LOOSE(arrays).items()}
    return Recorded(module, params, LOOSE, gradients)


def both(
    recorded: Recorded,
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    before: Callable[[], object] = lambda: None,
    after: Callable[[int], object] = lambda step: None,
    start: int = 0,
    until: int = STEPS,
    **options: Any,
) -> float:
    """The largest distance over a run: in torch with ``before`` and ``after`` each step, in JAX with the options."""
    for place in range(start):
        torch_step(module, optimizer, recorded.gradients[place], before)
        after(place)
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping, **options)
    step, worst = flax_steps(transformation), 0.0
    for place, gradients in enumerate(recorded.gradients[start:until], start):
        torch_step(module, optimizer, gradients, before)
        after(place)
        params, state = step(recorded.to_flax(gradients), state, params)
        worst = float(np.maximum(worst, distance(recorded.to_torch(params), module)))
    return worst
