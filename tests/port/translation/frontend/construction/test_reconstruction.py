"""Constructor arguments are inferred from a module, and never wrong ones."""

from __future__ import annotations

import copy
import inspect
import random
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from port.translation.frontend.construction.likeness import described, is_torchs
from port.translation.frontend.construction.reconstruction import constructor_arguments
from tests.port.translation.zoo import EXAMPLES

_FOUND = 143
"""Of so many modules of the zoo the arguments are found; two of the others are torch's own, one was changed later."""


def found(module: nn.Module) -> dict[str, Any] | None:
    arguments = constructor_arguments(module)
    return None if arguments is None else dict(arguments.arguments)


class Numbers(nn.Module):
    def __init__(self, dim: int, rate: float, name: str = "a", *, times: int, sizes: tuple[int, ...] = (1, 2)) -> None:
        super().__init__()
        self.dim = dim
        self._rate = rate
        self.title = name
        self.times, self.sizes = times, sizes


class Layers(nn.Module):
    def __init__(self, dim: int, hidden: int, kernel: int = 3, bias: bool = True, p: float = 0.1) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, hidden, bias=bias)
        self.rest = nn.Sequential(nn.Conv2d(hidden, dim, kernel_size=kernel), nn.ReLU(), nn.Dropout(p))


class Block(nn.Module):
    def __init__(self, width: int, ratio: float = 4.0, act: Callable[[], nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.up = nn.Linear(width, int(width * ratio))
        self.act = act()
        self.down = nn.Linear(int(width * ratio), width)


class Deep(nn.Module):
    def __init__(self, width: int, depth: int, ratio: float = 4.0, act: Any = nn.GELU, block: Any = Block) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([block(width, ratio, act) for _ in range(depth)])


class Appended(nn.Module):
    def __init__(self, width: int, depth: int, classes: int, with_norm: bool = False) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers.append(nn.Linear(width, width))
            if with_norm:
                layers.append(nn.BatchNorm1d(width))
        layers.append(nn.Linear(width, classes))
        self.layers = nn.Sequential(*layers)


class Derived(Layers):
    def __init__(self, channels: int, *, k: int) -> None:
        super().__init__(channels, channels * 2, kernel=k)
        self.scale = nn.Parameter(torch.ones(1, channels))


class Inherited(Layers):
    pass


class Passing(Layers):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


@dataclass
class Config:
    dim: int = 4
    depth: int = 2


class Configured(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.dim, config.depth)
        config.used = True


@dataclass(eq=False)
class Generated(nn.Module):
    dim: int
    rate: float = 0.5

    def __post_init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(self.dim, 2)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (Numbers(3, 0.5, "b", times=2), {"dim": 3, "rate": 0.5, "name": "b", "times": 2, "sizes": (1, 2)}),
        (Layers(4, 5, 1, False, 0.3), {"dim": 4, "hidden": 5, "kernel": 1, "bias": False, "p": 0.3}),
        (Layers(4, 5), {"dim": 4, "hidden": 5, "kernel": 3, "bias": True, "p": 0.1}),
        (Deep(6, 3, 2.0, nn.ReLU), {"width": 6, "depth": 3, "ratio": 2.0, "act": nn.ReLU, "block": Block}),
        (Appended(5, 3, 2, True), {"width": 5, "depth": 3, "classes": 2, "with_norm": True}),
        (Appended(5, 3, 2), {"width": 5, "depth": 3, "classes": 2, "with_norm": False}),
        (Derived(4, k=2), {"channels": 4, "k": 2}),
        (Inherited(3, 7), {"dim": 3, "hidden": 7, "kernel": 3, "bias": True, "p": 0.1}),
        (Generated(3, 0.25), {"dim": 3, "rate": 0.25}),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, nn.Module) else "",
)
def test_arguments_are_found(module: nn.Module, arguments: dict[str, Any]) -> None:
    assert found(module) == arguments
    assert found(copy.deepcopy(module).to("meta")) == arguments
    assert found(copy.deepcopy(module).double().requires_grad_(False).eval()) == arguments


def test_arguments_make_one_like_it() -> None:
    arguments = constructor_arguments(Numbers(3, 0.5, times=2))
    assert arguments is not None
    assert Numbers(*arguments.args, **arguments.kwargs).times == 2


@pytest.mark.parametrize("config", [Config(5, 3), Namespace(dim=5, depth=3)])
def test_a_configuration_is_given_as_a_copy(config: Any) -> None:
    module = Configured(config)
    before = dict(vars(config))
    arguments = found(module)
    assert arguments is not None and arguments["config"] is not config
    assert vars(arguments["config"]) == before == vars(config)


def test_what_is_passed_on_behind_stars_is_not_found() -> None:
    assert found(Passing(4, 5)) is None


class Doubled(nn.Module):
    def __init__(self, dim: int, width: int = 3) -> None:
        super().__init__()
        self.dim = dim * 2
        self.fc = nn.Linear(dim, width)


class Squared(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim**2 + 1


class Sines(nn.Module):
    def __init__(self, dim: int, theta: float = 10000.0) -> None:
        super().__init__()
        self.dim = dim
        self.register_buffer("rates", theta ** (-torch.arange(dim) / dim))


class Chosen(nn.Module):
    def __init__(self, act: str = "relu") -> None:
        super().__init__()
        self.act = {"relu": torch.relu, "tanh": torch.tanh}[act]


class Tied(nn.Module):
    def __init__(self, dim: int, tie: bool = False) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(dim, dim), nn.Linear(dim, dim)
        if tie:
            self.other.weight = self.one.weight


class Holding(nn.Module):
    def __init__(self, inner: nn.Module, table: torch.Tensor) -> None:
        super().__init__()
        self.inner, self.table = inner, table


def test_an_attribute_that_is_not_the_argument() -> None:
    assert found(Doubled(4)) == {"dim": 4, "width": 3}
    assert found(Squared(3)) is None


def test_a_default_is_not_taken_where_it_makes_another() -> None:
    assert found(Sines(4)) == {"dim": 4, "theta": 10000.0}
    assert found(Sines(4, 500.0)) is None
    assert found(Chosen()) == {"act": "relu"}
    assert found(Chosen("tanh")) is None
    assert found(Tied(3)) == {"dim": 3, "tie": False}
    assert found(Tied(3, tie=True)) == {"dim": 3, "tie": True}


def test_modules_and_tensors_are_not_passed() -> None:
    assert found(Holding(nn.Linear(2, 2), torch.ones(2))) is None


@pytest.mark.parametrize("module", [nn.Linear(2, 3), nn.Sequential(nn.ReLU())])
def test_of_torchs_own_none_is_constructed(module: nn.Module) -> None:
    assert found(module) is None


def test_one_that_was_changed_later() -> None:
    module = Layers(4, 5)
    module.fc = nn.Identity()  # type: ignore[assignment]
    assert found(module) is None


class Loud(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        print("made", random.random(), np.random.rand(), torch.rand(1))  # noqa: NPY002
        print("made", file=sys.stderr)
        warnings.warn("made", stacklevel=1)
        self.fc = nn.Linear(dim, dim)


def test_nothing_is_seen_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="made"):
        module = Loud(3)
    capfd.readouterr()
    held = {name: value.clone() for name, value in module.state_dict().items()}
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index, union-attr]  # noqa: NPY002
    assert found(module) == {"dim": 3}
    assert capfd.readouterr() == ("", "")
    assert random.getstate() == before[0]
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])
    assert all(torch.equal(value, held[name]) for name, value in module.state_dict().items())


def given_to(build: Callable[[], nn.Module]) -> tuple[nn.Module, dict[str, Any]]:
    """A module, and the true arguments of its constructor."""
    given: dict[int, dict[str, Any]] = {}

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "__init__" and "self" in frame.f_locals:
            given.setdefault(id(frame.f_locals["self"]), dict(frame.f_locals))

    sys.setprofile(watch)
    try:
        module = build()
    finally:
        sys.setprofile(None)
    names = inspect.signature(type(module)).parameters
    return module, {name: value for name, value in given[id(module)].items() if name in names}


@pytest.mark.sweep
def test_the_zoos_are_found_and_are_what_they_were_given() -> None:
    count = 0
    for example in EXAMPLES:
        module, given = given_to(example.build)
        arguments = found(module)
        if arguments is not None:
            assert not is_torchs(type(module))
            count += 1
            for name, value in given.items():
                assert plainly(arguments[name]) == plainly(value), (example.name, name)
    assert count >= _FOUND, f"{count} of {len(EXAMPLES)}"


def plainly(value: Any) -> Any:
    """Treat a list and a tuple with the same items as equal."""
    return described(tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "alexnet", "densenet121", "mobilenet_v2", "vit_b_16", "squeezenet1_0"]
)
def test_torchvisions(name: str) -> None:
    import torchvision

    with torch.device("meta"):
        module = getattr(torchvision.models, name)()
    assert found(module) is not None


def test_a_partial_is_an_argument() -> None:
    import torchvision

    with torch.device("meta"):
        arguments = found(torchvision.models.vit_b_16())
    assert arguments is not None
    assert described(arguments["norm_layer"]) == described(partial(nn.LayerNorm, eps=1e-6))
