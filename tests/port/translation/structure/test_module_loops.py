"""Loops that collect their outputs: the list and both loops are written as in the original."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.held_lists import HeldLists
from port.translation.structure.module_loops import with_loops
from port.translation.structure.train_eval_merge import merged
from port.translation.structure.written_body import Body
from port.translation.verify import prove

from ..statements_read import statements

pytestmark = pytest.mark.filterwarnings("ignore")


class Skips(nn.Module):
    """Down and up again: what each round leaves, the rounds on the other side take from the end."""

    def __init__(self, width: int = 3, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(5, width)
        self.downs = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.ups = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        x = self.stem(x)
        for down in self.downs:
            skips.append(x)
            x = torch.tanh(down(x))
        for up in self.ups:
            x = torch.tanh(up(x)) + skips.pop()
        return x


class Pyramid(nn.Module):
    """What each round makes is given, all of it."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(5, 5) for _ in range(depth))

    def forward(self, x: Tensor) -> list[Tensor]:
        features = []
        for stage in self.stages:
            x = torch.relu(stage(x))
            features.append(x)
        return features


class InOrder(nn.Module):
    """What the rounds make is taken in the same order."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(5, 5) for _ in range(depth))
        self.laterals = nn.ModuleList(nn.Linear(5, 5) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        states = []
        for stage in self.stages:
            states.append(x)
            x = torch.relu(stage(x))
        for lateral, state in zip(self.laterals, states, strict=True):
            x = x * torch.sigmoid(lateral(state))
        return x


class Pairs(nn.Module):
    """A list of lists, whose parts have names; and one list that each round is given, longer by one."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(5 + 2 * i, 4), nn.Linear(4, 2)]) for i in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for inner, outer in self.layers:
            hidden = inner(torch.cat(features, dim=-1))
            features.append(outer(torch.tanh(hidden)))
        return torch.cat(features, dim=-1)


class Strided(nn.Module):
    """Down, and up again through a list whose items take turns, by their numbers."""

    def __init__(self, width: int = 3, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(5, width)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        for _ in range(depth):
            self.downs.append(nn.Linear(width, width))
            self.ups.append(nn.Linear(width, width))
            self.ups.append(nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        x = self.stem(x)
        for down in self.downs:
            x = torch.tanh(down(x))
            skips.append(x)
        skips = skips[::-1]
        for i in range(0, len(self.ups), 2):
            x = torch.sin(self.ups[i](x))
            x = self.ups[i + 1](torch.cat((skips[i // 2], x), dim=1))
        return x


SAID: dict[Callable[..., nn.Module], list[str]] = {
    Skips: [
        "        skips = []\n",
        "        for down in self.downs:\n            skips.append(x)\n            x = jnp.tanh(down(x))\n",
        "            x = jnp.tanh(up(x)) + skip\n",
    ],
    Pyramid: [
        "        for stage in self.stages:\n            x = nnx.relu(stage(x))\n            features.append(x)\n",
        "return features",
    ],
    InOrder: [
        "            states.append(x)\n            x = nnx.relu(stage(x))\n",
        "        for lateral, state in zip(self.laterals, states):\n            x = x * nnx.sigmoid(lateral(state))\n",
    ],
    Pairs: [
        "        for inner, outer in self.layers:\n",
        "            hidden = inner(jnp.concatenate(features, axis=-1))\n",
        "            features.append(outer(jnp.tanh(hidden)))\n",
    ],
    Strided: [
        "        for up, up_, skip in zip(self.ups[0::2], self.ups[1::2], reversed(skips)):\n",
        "            x = jnp.sin(up(x))\n            x = up_(jnp.concatenate([skip, x], axis=-1))\n",
    ],
}


@pytest.mark.parametrize("cls", SAID, ids=lambda cls: cls.__name__)
@pytest.mark.sweep
def test_the_list_and_the_loops_are_the_originals(cls: Callable[..., nn.Module]) -> None:
    made = port.translate(cls(), (torch.randn(4, 5),), construct=cls, static=True)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    for said in SAID[cls]:
        assert said in made.source, made.source
    assert made.proof_at({"depth": 4}).agrees


@pytest.mark.sweep
def test_a_skip_of_another_round_is_seen() -> None:
    module, x = Skips(), torch.randn(4, 5)
    made = port.translate(module, (x,), static=True)
    wrong = made.source.replace("reversed(skips)", "skips")
    assert wrong != made.source
    assert not prove(module, type(made)(**{**vars(made), "source": wrong}), (x,), {}).agrees


class Dense(nn.Module):
    """Appends what its layers make."""

    def forward(self, x: Tensor) -> list[Tensor]:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return features


GROWS = "y = self.layers[0]([x])\nz = self.layers[1]([x, y])"
LOOP = "features = [x]\nfor layer in self.layers:\n    features.append(layer(features))"


def test_what_a_loop_appends_to_is_read_by_its_number() -> None:
    lines = ["skips = []", "skips.append(x)"]
    for number in range(3):
        lines += [f"x = f(skips[{number}], self.layers[{number}](x))", "skips.append(x)"]
    body = Body(("x",), tuple(statements("\n".join(lines))), code("f(x)"))
    lists = HeldLists({code("self.layers"): 3, code("skips"): 4})
    made = "\n".join(text_of(*with_loops(body, lists, Dense.forward).statements).splitlines())
    assert "for i, layer in enumerate(self.layers):\n    skips.append(x)\n    x = f(skips[i], layer(x))" in made


def test_a_parameter_that_is_only_given_back_keeps_its_name() -> None:
    body = Body(("x", "layer"), tuple(statements("x = self.layers[0](x)\nx = self.layers[1](x)")), code("f(x, layer)"))
    made = with_loops(body, HeldLists({code("self.layers"): 2}), Dense.forward)
    assert text_of(*made.statements) == "for layer_ in self.layers:\n    x = layer_(x)"


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_rounds_that_both_modes_begin_alike_are_a_loop_of_each(rounds: int) -> None:
    training, evaluation = [], []
    for number in range(rounds):
        training += ["skip = draw()", f"y = self.layers[{number}](x)", "x = where(skip, x, y)"]
        evaluation += [f"y = self.layers[{number}](x)", "x = g(y)"] if number else ["y = self.layers[0](x)", "x = y"]
    both = [Body(("x",), tuple(statements("\n".join(lines))), code("x")) for lines in (training, evaluation)]
    made = with_loops(merged(*both), HeldLists({code("self.layers"): rounds}), Dense.forward)
    found = text_of(*made.statements)
    assert found.startswith(
        "if not self.deterministic:\n    for layer in self.layers:\n        skip = draw()\n        y = layer(x)\n"
        "        x = where(skip, x, y)\nelse:\n    y = self.layers[0](x)\n    x = y\n"
    )


def test_rounds_that_both_modes_do_alike_are_one_loop() -> None:
    lines = ["y = self.layers[0](x)", "x = y", "y = self.layers[1](x)", "x = y"]
    training, evaluation = (
        Body(("x",), tuple(statements("\n".join(each))), code("x"))
        for each in (["x = noise(x)", *lines, "x = h(x)"], lines)
    )
    made = with_loops(merged(training, evaluation), HeldLists({code("self.layers"): 2}), Dense.forward)
    assert text_of(*made.statements).count("for layer in self.layers:") == 1


@pytest.mark.parametrize(
    ("text", "returns", "short"),
    [
        (GROWS, "f([x, y, z])", LOOP),
        # A list that skips something does not grow.
        (GROWS, "f([x, z])", GROWS),
        ("x = self.layers[0](x)\nx = self.layers[1](x)", "x", "for layer in self.layers:\n    x = layer(x)"),
    ],
)
def test_statements_that_repeat_are_a_loop(text: str, returns: str, short: str) -> None:
    body = Body(("x",), tuple(statements(text)), code(returns))
    made = with_loops(body, HeldLists({code("self.layers"): 2}), Dense.forward)
    assert text_of(*made.statements) == short
    assert made.returns is not None
    assert syntax.source(made.returns) == ("f(features)" if short == LOOP else returns)
