"""Lists that grow from call to call: written with appends, unless that would change the result."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.codegen.statements import text_of
from port.translation.structure.list_append import grown, list_name

from ..statements_read import statements


class Dense(nn.Module):
    """Each layer sees what all before it gave."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({f"layer{number}": nn.Linear(3 + 2 * number, 2) for number in range(count)})

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers.values():
            features.append(torch.tanh(layer(torch.cat(features, -1))))
        return torch.cat(features, -1)


class TwoLists(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        ups, downs = [x], []
        ups.append(x + 1)
        downs.append(x)
        return ups[1] + downs[0]


def written(source: str, cls: type = TwoLists, taken: set[str] | None = None) -> str:
    """The statements of a function's body, as `grown` writes them."""
    return text_of(*grown(statements(source), cls.forward, taken or set()))


CHAIN = "y = f([x])\nz = f([x, y])\nw = f([x, y, z])\ng([x, y, z, w])"


def test_a_list_that_grows_is_appended_to() -> None:
    assert written(CHAIN).splitlines() == [
        "collected = [x]",
        "collected.append(f(collected))",
        "collected.append(f(collected))",
        "collected.append(f(collected))",
        "g(collected)",
    ]


def test_another_list_before_it_is_left() -> None:
    assert written("u = stack([a, b])\n" + CHAIN).splitlines()[:2] == ["u = stack([a, b])", "collected = [x]"]


def test_what_is_read_elsewhere_too_keeps_its_name() -> None:
    assert written("y = f([x])\nz = f([x, y])\nw = f([x, y, z])\ng(y)").splitlines() == [
        "collected = [x]",
        "y = f(collected)",
        "collected.append(y)",
        "collected.append(f(collected))",
        "w = f(collected)",
        "g(y)",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "y = f([x])\nz = f([x, y])\ng(z)",  # too short to be worth it
        CHAIN + "\nh([x, y])",  # a shorter one later on
        "y = f([x])\nz = f([x, y])\nx = h(x)\nw = f([x, y, z])\ng([x, y, z, w])",  # x is another by then
        "y = f([x])\nkept = [x, y]\nz = f([x, y])\nw = g(kept)\nif w:\n    v = f([x, y, z])",  # made in a branch alone
        "y = f([x])\nz = f([y, x])\nw = f([y, x, z])",  # in another order
    ],
)
def test_what_would_not_be_the_same_is_left(source: str) -> None:
    assert written(source) == source


def test_a_list_that_is_kept_is_a_list_of_its_own() -> None:
    source = "y = f([x])\nkept = [x, y]\nz = f([x, y])\nw = f([x, y, z])\ng(kept, w)"
    assert "kept = [x, y]" in written(source) and "collected.append(f(collected))" in written(source)


def test_the_originals_name_is_kept_where_there_is_one() -> None:
    assert list_name(Dense.forward, set()) == "features"
    assert list_name(Dense.forward, {"features"}) == "features_"
    assert list_name(TwoLists.forward, set()) == "collected"
    assert list_name(nn.Module.forward, set()) == "collected"


@pytest.mark.sweep
def test_a_dense_block() -> None:
    translation = port.translate(Dense(), torch.randn(2, 3))
    assert translation.proof is not None and translation.proof.agrees
    assert translation.source.count("features.append(") == 4
    assert "features = [x]" in translation.source
