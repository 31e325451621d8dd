"""Which pair speaks of a module: registered ones first, subclasses that are called as their parent, and no others."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch
from flax import nnx

import port
from port.errors import UsageError
from port.moves import Permute
from port.pairs import (
    LAYERS,
    LayerPair,
    ParamPair,
    all_pairs,
    name_of,
    pairs_of_flax,
    pairs_of_torch,
    register,
    registered,
)

RNGS = nnx.Rngs(0)


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(registered, "_pairs", [])


def classes():
    """A torch class and a Flax one without public names, as a notebook's cell has them."""

    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(2, 3))

        def forward(self, x):
            return x @ self.weight

    class FlaxScale(nnx.Module):
        def __init__(self) -> None:
            self.kernel = nnx.Param(RNGS.params.normal((3, 2)))

        def __call__(self, x):
            return x @ self.kernel

    return Scale, FlaxScale


def test_a_class_without_a_public_name_is_registered_as_itself():
    theirs, ours = classes()
    assert pairs_of_torch(theirs()) == []
    pair = LayerPair(theirs, ours, (ParamPair("weight", "kernel", (Permute((1, 0)),)),))
    port.pairs.register(pair)
    assert pairs_of_torch(theirs()) == [pair]
    assert pairs_of_flax(ours()) == [pair]
    assert str(port.mapping.between(theirs(), ours())) == "weight → kernel  [permute(1, 0)]"
    assert "<locals>.Scale ⇄ " in str(pair)
    others = classes()  # the cell has been run again: other classes of the same names
    assert pairs_of_torch(others[0]()) == []
    assert pairs_of_flax(others[1]()) == []


def test_registered_pairs_go_before_the_projects_and_the_last_before_the_others():
    first, last = (
        replace(LAYERS[0], torch="torch.nn.Linear", flax="flax.nnx.Linear", notes=(n,)) for n in ("W1", "W2")
    )
    before = pairs_of_torch(torch.nn.Linear(2, 3))
    register(first)
    register(last)
    register(first)  # once is enough
    assert pairs_of_torch(torch.nn.Linear(2, 3)) == [last, first, *before]
    assert all_pairs() == (last, first, *LAYERS)


@pytest.mark.parametrize("wrong", ["torch.nn.Linear", None, LayerPair])
def test_what_is_no_pair_is_refused(wrong):
    with pytest.raises(UsageError, match=r"port\.register takes a pair of port\.pairs: a LayerPair .*; got "):
        register(wrong)


def test_a_subclass_is_its_parent_unless_it_is_called_otherwise():
    class Same(torch.nn.Linear):
        def extra(self):
            return 1

    class Other(torch.nn.Linear):
        def forward(self, x):
            return -super().forward(x)

    class OtherAgain(Other):
        pass

    assert pairs_of_torch(Same(2, 3)) == pairs_of_torch(torch.nn.Linear(2, 3)) != []
    assert pairs_of_torch(Other(2, 3)) == pairs_of_torch(OtherAgain(2, 3)) == []


def test_the_same_on_flaxs_side():
    class Same(nnx.Linear):
        pass

    class Other(nnx.Linear):
        def __call__(self, x):
            return -super().__call__(x)

    assert pairs_of_flax(Same(2, 3, rngs=RNGS)) == pairs_of_flax(nnx.Linear(2, 3, rngs=RNGS)) != []
    assert pairs_of_flax(Other(2, 3, rngs=RNGS)) == []


def test_the_twin_comes_first():
    plain, padded = torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(2, 3, 3, padding_mode="reflect")
    assert pairs_of_torch(plain)[0].flax == "flax.nnx.Conv"
    assert pairs_of_torch(padded)[0].flax == "port.nn.Conv"


def test_a_name_that_gets_its_meaning_later_is_seen_then(monkeypatch):
    theirs, _ = classes()
    register(LayerPair("some_project.Scale", "flax.nnx.Linear"))
    assert pairs_of_torch(theirs()) == []
    project = type(sys)("some_project")
    project.Scale = theirs
    monkeypatch.setitem(sys.modules, "some_project", project)
    assert len(pairs_of_torch(theirs())) == 1


def test_names_are_public_ones():
    assert name_of("torch.nn.Linear") == "torch.nn.Linear"
    assert name_of(torch.nn.Linear) == "torch.nn.modules.linear.Linear"
