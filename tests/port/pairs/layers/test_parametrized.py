"""Weight norm, spectral norm and orthogonal weights, in both of torch's ways of writing them (W22)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm
from torch.nn.utils import weight_norm as deprecated_weight_norm

from port.errors import NoPair
from port.moves import Split
from port.pairs import LayerPair, ParamPair, pairs_of_flax, pairs_of_torch, twin_pair
from port.pairs.layers import DERIVED

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds

Shapes = tuple[tuple[int, ...], ...]


def weight_norm(layer: nn.Module, **options: Any) -> nn.Module:
    with pytest.warns(FutureWarning, match="deprecated"):
        return deprecated_weight_norm(layer, **options)


def linear() -> nn.Module:
    return nn.Linear(5, 3)


def conv() -> nn.Module:
    return nn.Conv2d(4, 6, (2, 3), groups=2)


def transposed() -> nn.Module:
    return nn.ConvTranspose1d(4, 6, 3, 2, 1)


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (linear, (4, 5)),
    "square linear, no bias": (partial(nn.Linear, 4, 4, bias=False), (3, 4)),
    "conv": (conv, (2, 4, 4, 5)),
    "conv that reflects": (partial(nn.Conv1d, 4, 6, 3, padding=1, padding_mode="reflect"), (2, 4, 5)),
    "transposed": (transposed, (2, 4, 5)),
    "transposed, groups": (partial(nn.ConvTranspose2d, 4, 6, (2, 3), groups=2), (2, 4, 3, 2)),
}
WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight": parametrizations.weight_norm,
    "weight, axis 1": partial(parametrizations.weight_norm, dim=1),
    "weight, one norm": partial(parametrizations.weight_norm, dim=None),
    "weight, older": weight_norm,
    "weight, older, one norm": partial(weight_norm, dim=None),
    "spectral": parametrizations.spectral_norm,
    "spectral, axis 1, 3 steps": partial(parametrizations.spectral_norm, dim=1, n_power_iterations=3),
    "spectral, older": spectral_norm,
    "spectral, older, eps": partial(spectral_norm, eps=10.0, n_power_iterations=2),
}
# All ways around one layer, and the others in one way of each kind.
CASES = [
    *(("linear", way) for way in WAYS),
    *(("conv", way) for way in ("weight", "weight, older", "spectral", "spectral, older")),
    ("transposed", "weight"),
    ("transposed, groups", "spectral"),
]
SWEEP = [(layer, way) for layer in LAYERS for way in WAYS]


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(0.3, 1, shape))


@pytest.mark.parametrize(("layer", "way"), CASES)
@pytest.mark.thin(15)
def test_W22_the_twin_computes_and_trains_the_same(layer: str, way: str, sides: Any) -> None:
    check(layer, way, sides)


@pytest.mark.sweep
@pytest.mark.parametrize(("layer", "way"), SWEEP)
def test_W22_every_layer_in_every_way(layer: str, way: str, sides: Any) -> None:
    check(layer, way, sides)


def check(layer: str, way: str, sides: Any) -> None:
    make, shape = LAYERS[layer]
    both = sides(WAYS[way](make()))
    both.check_weights()
    assert both.difference(random(*shape), steps=2) < TOLERANCE


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_an_embedding_may_be_wrapped(wrap: Any, sides: Any) -> None:
    both = sides(wrap(nn.Embedding(7, 3)))
    both.check_weights()
    assert both.difference(torch.tensor([[1, 2], [5, 1]]), steps=2) < TOLERANCE


def test_two_weights_of_one_layer(sides: Any) -> None:
    layer = parametrizations.weight_norm(parametrizations.spectral_norm(nn.Bilinear(2, 3, 4)), "bias", dim=None)
    both = sides(layer)
    both.check_weights()
    assert both.difference(random(5, 2), random(5, 3), steps=2) < TOLERANCE


ORTHOGONAL = [
    (shape, orthogonal_map, trivialised)
    for shape in ((4, 4), (3, 5), (5, 3))
    for orthogonal_map in ("matrix_exp", "cayley", "householder")
    for trivialised in (True, False)
]


def shrink(layer: nn.Module) -> None:
    layer.parametrizations.weight.original.mul_(0.5)


def signs_on_the_diagonal(layer: nn.Module) -> None:
    """As torch has them; a random diagonal would be cut to zeros, and so would everything."""
    diagonal = layer.parametrizations.weight.original.diagonal()
    diagonal.copy_(torch.tensor([1.0, -1.0, -1.0, 1.0])[: len(diagonal)])


@pytest.mark.parametrize(
    ("shape", "orthogonal_map", "trivialised"),
    [
        ((5, 3), "matrix_exp", True),
        ((3, 5), "cayley", False),
        ((4, 4), "cayley", True),
        ((3, 5), "householder", True),
        ((5, 3), "householder", False),
    ],
)
@pytest.mark.thin(6)
def test_orthogonal_weights(shape: tuple[int, int], orthogonal_map: str, trivialised: bool, sides: Any) -> None:
    check_orthogonal(shape, orthogonal_map, trivialised, sides)


@pytest.mark.sweep
@pytest.mark.parametrize(("shape", "orthogonal_map", "trivialised"), ORTHOGONAL)
def test_all_orthogonal_weights(shape: tuple[int, int], orthogonal_map: str, trivialised: bool, sides: Any) -> None:
    check_orthogonal(shape, orthogonal_map, trivialised, sides)


def check_orthogonal(shape: tuple[int, int], orthogonal_map: str, trivialised: bool, sides: Any) -> None:
    layer = nn.Linear(*shape).to(torch.float64)
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map, use_trivialization=trivialised)
    both = sides(layer, prepare=signs_on_the_diagonal if orthogonal_map == "householder" else shrink)
    both.check_weights()
    assert both.difference(random(3, shape[0]), steps=1) < 1e-11


def test_an_orthogonal_batch(sides: Any) -> None:
    both = sides(parametrizations.orthogonal(nn.Conv2d(3, 5, (2, 3)), orthogonal_map="cayley"))
    both.check_weights()
    assert both.difference(random(2, 3, 4, 5), steps=1) < 1e-11


# %% Planted faults


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("weight", {"axis": -2}),
        ("spectral", {"v_first": True}),
        ("spectral", {"n_power_iterations": 2}),
        ("spectral, older", {"v_first": False}),
        ("spectral, older, eps", {"eps": 20.0}),
    ],
)
@pytest.mark.thin(5)
def test_W22_a_twin_that_is_told_otherwise_is_seen(way: str, fault: dict[str, Any], sides: Any) -> None:
    layer = WAYS[way](nn.Linear(4, 4))
    assert sides(layer).difference(random(3, 4)) < TOLERANCE
    both = sides(layer, attributes=fault)
    assert both.difference(random(3, 4)) > VISIBLE


def test_W22_v_in_another_order_is_seen(sides: Any) -> None:
    """The columns of a convolution's matrix are (in, *window) in torch, (*window, in) here."""
    layer = parametrizations.spectral_norm(nn.Conv1d(3, 3, 3))
    assert sides(layer).difference(random(2, 3, 5)) < TOLERANCE
    both = sides(layer, moves={"parametrizations.weight.0._v": ()})
    assert both.difference(random(2, 3, 5)) > VISIBLE


# %% Which pair


def test_both_ways_to_write_it_are_read_from_flax(sides: Any) -> None:
    twin = sides(parametrizations.weight_norm(linear())).twin
    first, second = (pair.params_of_flax(twin)[0].torch for pair in pairs_of_flax(twin))
    assert (first, second) == ("parametrizations.weight.original0", "weight_g")


def test_pairs_of_one_layer_are_equal() -> None:
    layer = parametrizations.spectral_norm(conv())
    assert pairs_of_torch(layer)[0] == pairs_of_torch(layer)[0]


def test_another_parametrization_has_no_pair() -> None:
    layer = torch.nn.utils.parametrize.register_parametrization(linear(), "weight", nn.Identity())
    with pytest.raises(NoPair, match="ParametrizedLinear"):
        twin_pair(layer)


def test_a_weight_through_two_parametrizations_has_no_pair() -> None:
    layer = parametrizations.spectral_norm(parametrizations.spectral_norm(linear()))
    with pytest.raises(NoPair, match="ParametrizedLinear"):
        twin_pair(layer)


class TwoInOne(nn.Linear):
    """A layer of one's own, whose weight is two parameters in Flax."""


@pytest.mark.sweep
def test_a_weight_that_has_no_place_of_its_own_is_refused() -> None:
    layer = parametrizations.weight_norm(TwoInOne(6, 4), dim=None)
    joined = LayerPair(TwoInOne, "flax.nnx.Linear", (ParamPair("weight", ("a", "b"), (Split(0, (2, 2)),)),))
    (derived,) = (pair for find in DERIVED if (pair := find.of_torch(layer, lambda plain: [joined])) is not None)
    assert "remove_parametrizations" in str(derived.unfit(layer))
