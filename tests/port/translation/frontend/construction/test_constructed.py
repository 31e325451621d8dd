"""A reconstructed model: the arguments of each constructor, and its loop counts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from port.translation.frontend.construction import Construction, constructed
from port.translation.ir.origin import said
from port.translation.ir.origin_numbers import origin_of
from tests.port.translation.constructor_nets import (
    Config,
    Derived,
    Flagged,
    FromNamespace,
    Gpt,
    MlpConfig,
    Stages,
    TwoScaled,
    Vit,
)
from tests.port.translation.odd_constructors import Once


def anew(module: nn.Module, **options: Any) -> Construction:
    found = constructed(module, **options)
    assert found is not None
    return found


def text(number: Any) -> str | None:
    origin = origin_of(number)
    return None if origin is None else said(origin)


def test_what_each_constructor_is_given() -> None:
    found = anew(Vit(8, heads=4))
    assert list(found.arguments[""]) == ["dim", "depth", "heads", "mlp_ratio", "tokens", "p"]
    assert text(found.arguments[""]["dim"]) is None  # the user's number
    block = found.arguments["blocks.1"]
    assert block == {"dim": 8, "heads": 4, "mlp_ratio": 2.0}
    assert {name: text(value) for name, value in block.items()} == {name: name for name in block}
    assert found.constructors[""] == 0
    assert found.constructors["blocks.0"] != found.constructors["blocks.1"]
    assert "norm" not in found.constructors


def test_what_a_module_holds_remembers_its_own_arguments() -> None:
    block = anew(Vit(8)).modules["blocks.1"]
    assert text(block.scale) == "(dim // heads) ** -0.5"
    assert text(block.fc1.out_features) == "int(dim * mlp_ratio)"
    assert text(block.fc1.in_features) == "dim"


def test_layers_and_sizes() -> None:
    found = anew(Vit(8))
    assert text(found.layers["norm"]["normalized_shape"]) == "dim"
    assert text(found.layers["drop"]["p"]) == "p"
    assert [text(size) for size in found.sizes["pos"]] == [None, "tokens", "dim"]
    assert [text(size) for size in anew(Gpt(Config(8, 2, 1, MlpConfig(6)))).sizes["blocks.0.attn.mask"]][2:] == [
        "config.block",
        "config.block",
    ]


def test_ranges() -> None:
    found = anew(Vit(8, depth=3))
    assert {number: [text(count) for count in counts] for number, counts in found.repeats.items()} == {0: ["depth"]}
    assert found.repeats[0] == (3,)


def test_a_base_classs_constructor_is_the_classs_own() -> None:
    found = anew(Derived(6))
    assert list(found.constructors) == [""]
    assert found.arguments[""] == {"dim": 6, "classes": 4}
    assert text(found.modules[""].dim) == "dim"
    assert text(found.modules[""].down.out_features) is None  # the base class's default


def test_a_configuration_is_known_again() -> None:
    found = anew(Gpt(Config(8, 2, 1, MlpConfig(6))))
    given = found.arguments["blocks.0"]["config"]
    origin = found.objects(given)
    assert origin is not None and (origin.constructor, origin.argument) == (0, "config")
    assert found.objects(found.arguments[""]["config"]) is None


def test_a_derived_sequential() -> None:
    found = anew(Stages(4))
    assert found.arguments["stages.1.0"] == {"inside": 4, "outside": 8, "kernel": 3}
    assert text(found.arguments["stages.1.0"]["outside"]) == "width * 2"


def test_the_module_is_left_as_it_is() -> None:
    module = TwoScaled(4)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    init, state = TwoScaled.__init__, torch.get_rng_state()
    found = anew(module)
    assert found.modules[""] is not module
    assert type(module.one.scale) is float
    assert TwoScaled.__init__ is init and nn.Linear.__init__.__module__ == "torch.nn.modules.linear"
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert found.modules["one"].fc.weight.is_meta
    assert torch.equal(torch.get_rng_state(), state)


def test_what_makes_another_model_is_none() -> None:
    assert constructed(Flagged(4), lambda: Flagged(5)) is None
    assert constructed(Flagged(4), lambda: Flagged(4, normed=False)) is None
    assert constructed(Flagged(4), lambda: None) is None
    assert constructed(Flagged(4), lambda: Flagged(4)) is not None


class Strict(nn.Module):
    """Requires an exact int."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if type(dim) is not int:
            raise TypeError("no whole number")
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def test_a_constructor_that_fails_is_none() -> None:
    Once.made = 0
    module = Once(3)
    assert constructed(module) is constructed(module, lambda: Once(3)) is None
    assert constructed(Strict(3)) is constructed(Strict(3), lambda: Strict(3)) is None
    assert Strict(3)(torch.ones(1, 3)).shape == (1, 3)


def test_of_a_namespace() -> None:
    from argparse import Namespace

    args = Namespace(dim=4, hidden=6, scale=0.5)
    found = anew(FromNamespace(args), construct=lambda: FromNamespace(args))
    assert text(found.modules[""].up.out_features) == "args.hidden"
    assert type(args.hidden) is int
