"""Small right modules around quantities that are zero in exact arithmetic, composed at random, the same by number."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..zoo.example import Example
from .consumers import CONSUMERS, Consumer
from .normalisers import NORMALISERS, Normaliser
from .producers import PRODUCERS, Producer
from .undifferentiable import UNDIFFERENTIABLE
from .wholes import WHOLES, Whole

COUNT = 240
"""Modules that the suite takes; any number more can be had."""


class Scalar(nn.Module):
    """A trained number is added."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


class Bias(nn.Module):
    """A trained number a channel is added."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class Gain(nn.Module):
    """A trained positive number multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(()) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


class Composed(nn.Module):
    """A producer, what its normaliser takes away again, the normaliser, and what exposes the zero."""

    def __init__(self, producer: nn.Module, before: nn.Module, normaliser: nn.Module, consumer: nn.Module) -> None:
        super().__init__()
        self.producer = producer
        self.before = before
        self.normaliser = normaliser
        self.consumer = consumer

    def forward(self, x: Tensor) -> Tensor:
        return self.consumer(self.normaliser(self.before(self.producer(x))))


class Beside(Composed):
    """The zero beside the activations that it was made of."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.normaliser(self.before(self.producer(x)))
        return y, self.consumer(y)


class Enlarged(Composed):
    """The zero a hundred million times."""

    def forward(self, x: Tensor) -> Tensor:
        return 1e8 * super().forward(x)


class Squared(Composed):
    """The square of the zero: its gradient is zero, too."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).square()


class Headed(Composed):
    """A bias is added to the zero, so that the output is none."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__(*parts)
        self.bias = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.bias


EXPOSURES: tuple[type[Composed], ...] = (Composed, Beside, Enlarged, Squared, Headed)
BEFORE = ("nothing", "scalar", "bias", "gain")


@dataclass(frozen=True)
class Choice:
    """One composition."""

    producer: Producer
    before: str
    normaliser: Normaliser
    consumer: Consumer
    exposure: type[Composed]

    @property
    def name(self) -> str:
        before = "" if self.before == "nothing" else f"{self.before} before "
        shown = "" if self.exposure is Composed else f", {self.exposure.__name__.lower()}"
        return f"{self.consumer.name} of {before}{self.normaliser.name} of {self.producer.name}{shown}"

    def build(self) -> nn.Module:
        features = self.producer.features
        shape = (features, 1, 1) if self.producer.channels_first else (features,)
        before: dict[str, Callable[[], nn.Module]] = {
            "nothing": nn.Identity,
            "scalar": Scalar,
            "bias": lambda: Bias(shape),
            "gain": Gain,
        }
        normaliser = self.normaliser.build(features)
        _fill(normaliser, gains=self.normaliser.gains)
        parts = self.producer.build(), before[self.before](), normaliser, self.consumer.build(self.normaliser.axes)
        return self.exposure(*parts)


def _fill(normaliser: nn.Module, *, gains: bool) -> None:
    """Random gains, where they leave the zero a zero, and random running statistics."""
    with torch.no_grad():
        for name, parameter in normaliser.named_parameters():
            if gains and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
        for name, buffer in normaliser.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)


def example(number: int) -> Example:
    """The module of a number: of ten, two are whole ones and one is without a gradient, while there are such."""
    ten, place = divmod(number, 10)
    if place in (3, 6) and (turn := 2 * ten + (place == 6)) < len(WHOLES):
        return _of_whole(WHOLES[turn], number)
    if place == 9 and ten < len(UNDIFFERENTIABLE):
        return _of_whole(UNDIFFERENTIABLE[ten], number)
    chosen = _choice(number)

    def inputs() -> tuple[tuple[Tensor], dict[str, Tensor]]:
        return (chosen.producer.inputs(torch.Generator().manual_seed(number)),), {}

    return Example(f"{number:03} {chosen.name}", _seeded(chosen.build, number), inputs, chosen.consumer.name)


def _of_whole(whole: Whole, number: int) -> Example:
    def inputs() -> tuple[tuple[Tensor], dict[str, Tensor]]:
        return (torch.randn(whole.shape, generator=torch.Generator().manual_seed(number)) + 0.2,), {}

    return Example(f"{number:03} {whole.name}", _seeded(whole.build, number), inputs, whole.name)


def _choice(number: int) -> Choice:
    """The consumers come by turns; all else is drawn."""
    ten, place = divmod(number, 10)
    turn = 7 * ten + (0, 1, 2, 2, 3, 4, 4, 5, 6, 6)[place]
    drawn = random.Random(number)
    consumer = CONSUMERS[turn % len(CONSUMERS)]
    fitting = [norm for norm in NORMALISERS if consumer.known in (None, norm.known)]
    normaliser = drawn.choice(fitting)
    producers = [producer for producer in PRODUCERS if producer.channels_first == normaliser.channels_first]
    return Choice(drawn.choice(producers), drawn.choice(BEFORE), normaliser, consumer, drawn.choice(EXPOSURES))


def _seeded(build: Callable[[], nn.Module], number: int) -> Callable[[], nn.Module]:
    def built() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            return build()

    return built
