"""What a module returns: an array, a tuple, a dict, an object, or nothing; each keeps its own ``__call__``."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import port
from port.errors import NoPair
from port.translation import Translation
from port.translation.verify import prove

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass
class Encoded:
    hidden: Tensor
    score: Tensor
    extra: Tensor | None = None


class Pair(NamedTuple):
    hidden: Tensor
    score: Tensor


class Output(OrderedDict[str, Tensor]):
    """torch knows the tree of a plain OrderedDict alone."""


class Gaussian:
    """As latent diffusion has it: the tensors of an object, and what its methods make of them."""

    def __init__(self, parameters: Tensor) -> None:
        self.parameters = parameters
        self.mean, self.log_variance = parameters.chunk(2, -1)
        self.deviation = (0.5 * self.log_variance).exp()

    def divergence(self) -> Tensor:
        return 0.5 * (self.mean**2 + self.log_variance.exp() - 1 - self.log_variance).sum(-1)


class Encoder(nn.Module):
    """Gives two arrays as ``give`` puts them."""

    def __init__(self, give: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.hidden, self.score = nn.Linear(8, 6), nn.Linear(8, 6)
        self.give = give

    def forward(self, x: Tensor) -> Any:
        return self.give(self.hidden(x), self.score(x))


class Model(nn.Module):
    """Takes what it uses of it."""

    def __init__(self, give: Callable[[Tensor, Tensor], Any], take: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.encoder, self.head = Encoder(give), nn.Linear(6, 3)
        self.take = take

    def forward(self, x: Tensor) -> Tensor:
        encoded = self.encoder(x)
        return self.head(self.take(encoded))


ENCODER = 'return {"hidden": self.hidden(x), "score": self.score(x)}'
CASES: dict[str, tuple[Callable[[Tensor, Tensor], Any], Callable[[Any], Tensor], tuple[str, str]]] = {
    "tuple of one": (
        lambda hidden, score: (hidden * score,),
        lambda encoded: encoded[0],
        ("return (self.hidden(x) * self.score(x),)", "return self.head(encoded[0])"),
    ),
    "list of one": (
        lambda hidden, score: [hidden - score],
        lambda encoded: encoded[0],
        ("return [self.hidden(x) - self.score(x)]", "return self.head(encoded[0])"),
    ),
    "dict, one item": (
        lambda hidden, score: {"hidden": hidden, "score": score},
        lambda encoded: encoded["score"],
        (ENCODER, 'return self.head(encoded["score"])'),
    ),
    "dict, both": (
        lambda hidden, score: {"hidden": hidden, "score": score},
        lambda encoded: encoded["hidden"] * encoded["score"],
        (ENCODER, 'return self.head(encoded["hidden"] * encoded["score"])'),
    ),
    "dataclass": (
        Encoded,
        lambda encoded: encoded.hidden + encoded.score.exp(),
        (ENCODER.replace("}", ', "extra": None}'), 'encoded["hidden"] + jnp.exp(encoded["score"])'),
    ),
    "mapping of the user's own": (
        lambda hidden, score: Output(hidden=hidden, score=score),
        lambda encoded: encoded["score"],
        (ENCODER, 'return self.head(encoded["score"])'),
    ),
    "named tuple": (
        Pair,
        lambda encoded: encoded.hidden - encoded.score,
        ("return self.hidden(x), self.score(x)", "return self.head(encoded[0] - encoded[1])"),
    ),
    "nested": (
        lambda hidden, score: {"levels": [hidden, (score,)], "count": 2},
        lambda encoded: encoded["levels"][1][0] / encoded["count"],
        ('{"levels": [self.hidden(x), (self.score(x),)], "count": 2}', 'encoded["levels"][1][0] / 2'),
    ),
    "one array twice": (
        lambda hidden, score: (hidden, {"again": hidden, "score": score}),
        lambda encoded: encoded[1]["again"] * encoded[1]["score"],
        ('{"again": hidden, "score": self.score(x)}', 'self.head(encoded[0] * encoded[1]["score"])'),
    ),
    "object": (
        lambda hidden, score: Gaussian(hidden),
        lambda encoded: torch.cat([encoded.mean, encoded.deviation], -1) + encoded.divergence()[..., None],
        ('"mean": ', 'jnp.concatenate([encoded["mean"], encoded["deviation"]]'),
    ),
    "distribution": (
        lambda hidden, score: torch.distributions.Normal(hidden, score.exp()),
        lambda encoded: encoded.mean + encoded.log_prob(torch.zeros_like(encoded.mean)),
        ('return {"loc": ', 'encoded["scale"]'),
    ),
}


def translated(case: str) -> tuple[nn.Module, Tensor, Translation]:
    give, take, _ = CASES[case]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module, x = Model(give, take), torch.randn(3, 5, 8)
    return module, x, port.translate(module, x)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sweep
def test_what_a_module_gives_is_given_in_flax(case: str) -> None:
    _, _, translation = translated(case)
    assert translation.proof.agrees, str(translation.proof)
    assert re.findall(r"class (\w+)", translation.source) == ["Encoder", "Model"], "none is dissolved into its caller"
    for line in CASES[case][2]:
        assert line in translation.source, translation.source


@pytest.mark.parametrize(
    ("case", "before", "after"),
    [
        ("dict, one item", '["score"]', '["hidden"]'),
        ("dict, both", '"hidden": self.hidden(x)', '"hidden": self.score(x)'),
        ("distribution", '{"loc": ', '{"scale": '),
    ],
)
@pytest.mark.sweep
def test_another_part_is_seen(case: str, before: str, after: str) -> None:
    module, x, translation = translated(case)
    source = translation.source.replace(before, after)
    assert source != translation.source
    assert not prove(module, replace(translation, source=source), (x,), {}).agrees


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (x + self.dense(x).tanh(),)


class Stack(nn.Module):
    """As transformers writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            outputs = layer(x)
            x = outputs[0]
        return x


class Alternating(Stack):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)[0]
        return x


@pytest.mark.parametrize(
    ("build", "loop"),
    [
        (Stack, "for layer in self.layers:\n            outputs = layer(x)\n            x = outputs[0]\n"),
        (Alternating, "for layer in self.layers:\n            x = layer(x)[0]\n"),
    ],
)
@pytest.mark.sweep
def test_a_loop_over_such_layers_stays_a_loop(build: type[nn.Module], loop: str) -> None:
    translation = port.translate(build(), torch.randn(3, 5, 8))
    assert translation.proof.agrees, str(translation.proof)
    assert loop in translation.source, translation.source


class Counter(nn.Module):
    """Writes to a buffer and gives nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> None:
        if self.training:
            self.mean.mul_(0.9).add_(x.mean((0, 1)).detach(), alpha=0.1)


class Observer(nn.Module):
    """Runs a layer that keeps statistics, and gives nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> None:
        self.norm(x)


class Watched(nn.Module):
    def __init__(self, watching: nn.Module) -> None:
        super().__init__()
        self.watching, self.dense = watching, nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        self.watching(x)
        return self.dense(x)


@pytest.mark.parametrize("watching", [Counter, Observer])
@pytest.mark.sweep
def test_a_call_for_nothing_but_its_buffers_is_written(watching: type[nn.Module]) -> None:
    module, x = Watched(watching()), torch.randn(3, 5, 8)
    translation = port.translate(module, x)
    assert translation.proof.agrees, str(translation.proof)
    assert "    self.watching(x)\n" in translation.source
    without = replace(translation, source=translation.source.replace("    self.watching(x)\n", "    pass\n"))
    assert "buffers after training" in str(prove(module, without, (x,), {})), "the proof sees that it is missing"


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, encoded: Encoded) -> Tensor:
        return self.head(encoded.hidden) + encoded.score[..., :3]


class Handing(nn.Module):
    """Hands an object from one module to another."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(Encoded), Decoder()

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


@pytest.mark.sweep
def test_an_object_is_handed_on() -> None:
    translation = port.translate(Handing(), torch.randn(3, 5, 8))
    assert translation.proof.agrees, str(translation.proof)
    assert 'return self.head(encoded["hidden"]) + encoded["score"][:, :, :3]' in translation.source
    assert "return self.decoder(self.encoder(x))" in translation.source


@pytest.mark.sweep
def test_the_root_gives_a_dataclass_as_a_dict() -> None:
    translation = port.translate(Encoder(Encoded), torch.randn(3, 5, 8))
    assert translation.proof.agrees, str(translation.proof)
    assert translation.proof.rows[0].count == 2


def test_the_root_gives_no_other_object() -> None:
    with pytest.raises(NoPair, match="Encoder returns or passes on a Normal, which is neither a tensor nor a"):
        port.translate(
            Encoder(lambda hidden, score: torch.distributions.Normal(hidden, score.exp())), torch.randn(3, 8)
        )


class Splits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.dense(x)
        return {"a": h, "b": h.relu()}


class TakesItsName(Splits):
    """Calls another array as the tree that it still reads of."""

    def forward(self, x: Any) -> dict[str, Tensor]:
        b = x["b"]
        x = self.dense(x["a"])
        return {"a": x + b, "b": x}


class StoresAnItem(Splits):
    def forward(self, d: Any) -> dict[str, Tensor]:
        d = dict(d)
        d["a"] = self.dense(d["a"])
        return d


class Joined(nn.Module):
    def __init__(self, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = Splits(), second

    def forward(self, x: Tensor) -> Tensor:
        given = self.second(self.first(x))
        return given["a"] * given["b"]


@pytest.mark.parametrize("second", [TakesItsName, StoresAnItem])
@pytest.mark.sweep
def test_a_tree_keeps_its_name_while_its_parts_are_read(second: type[nn.Module]) -> None:
    translation = port.translate(Joined(second()), torch.randn(3, 5, 8))
    assert translation.proof.agrees, str(translation.proof)


class Siamese(nn.Module):
    """The later result is read first: statistics must have both in the order of the calls."""

    def __init__(self, in_a_dict: bool) -> None:
        super().__init__()
        self.norm, self.in_a_dict = Normed() if in_a_dict else nn.BatchNorm1d(5), in_a_dict

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        both = [self.norm(each) for each in (x, y)]
        if self.in_a_dict:
            both = [each["x"] for each in both]
        return both[1] * 2 - both[0]


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"x": self.norm(x)}


@pytest.mark.parametrize("in_a_dict", [False, True])
@pytest.mark.sweep
def test_calls_of_one_layer_keep_their_order(in_a_dict: bool) -> None:
    translation = port.translate(Siamese(in_a_dict), (torch.randn(3, 5, 8), torch.randn(3, 5, 8) + 2))
    assert translation.proof.agrees, str(translation.proof)
