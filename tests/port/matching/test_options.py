"""Options: by a pair where one speaks of both layers, else by shapes and roles; none where they cannot meet."""

from __future__ import annotations

import torch
from flax import nnx

from port.mapping.models import guide_of_flax, guide_of_torch
from port.matching.options import options_of
from port.matching.units import Unit, units_of
from port.moves import Permute

from .chains import unit


def torch_unit(layer: torch.nn.Module) -> Unit:
    (found,) = units_of(guide_of_torch(torch.nn.Sequential(layer)))
    return found


def flax_unit(layer: nnx.Module) -> Unit:
    (found,) = units_of(guide_of_flax(nnx.Sequential(layer)))
    return found


def test_a_pair_says_the_moves() -> None:
    flax = flax_unit(nnx.Linear(4, 4, rngs=nnx.Rngs(0)))
    collections = dict.fromkeys(flax.names.values(), "params")
    (option,) = options_of(torch_unit(torch.nn.Linear(4, 4)), flax, collections)
    assert option.is_sure and {found.moves for found in option.found} == {(Permute((1, 0)),), ()}
    assert options_of(torch_unit(torch.nn.Linear(4, 5)), flax, collections) == []
    assert options_of(torch_unit(torch.nn.Linear(4, 4, bias=False)), flax, collections) == []


def test_without_a_pair_shapes_and_roles_do() -> None:
    flax = unit("mine", "own", kernel=(4, 4), bias=(4,))
    usual, other = options_of(torch_unit(torch.nn.Linear(4, 4)), flax, dict.fromkeys(flax.names.values(), "params"))
    assert not usual.is_sure and usual.note != other.note
    assert options_of(torch_unit(torch.nn.LayerNorm(4)), flax, dict.fromkeys(flax.names.values(), "params")) == []


def test_what_flax_does_without_is_kept_aside() -> None:
    flax = flax_unit(nnx.BatchNorm(3, rngs=nnx.Rngs(0)))
    collections = dict.fromkeys(flax.names.values(), "params")
    (option,) = options_of(torch_unit(torch.nn.BatchNorm1d(3)), flax, collections)
    (counter,) = (found for found in option.found if found.optional)
    assert counter.torch == ("0.num_batches_tracked",) and len(option.found) == 5


def test_the_bias_of_a_layer_without_its_weight_is_a_parameter_of_a_persons_own() -> None:
    theirs, ours = unit("head", "linear", bias=(5,)), unit("mine", "own", bias=(5,))
    for torch_side, flax_side in ((theirs, ours), (ours, theirs)):
        (option,) = options_of(torch_side, flax_side, {flax_side.label: "params"})
        (found,) = option.found
        assert found.torch == (torch_side.label,) and found.moves == ()
    # Of two layers, one's bias is not the other's weight.
    assert options_of(theirs, unit("other", "conv", weight=(5,)), {"other.weight": "params"}) == []
