"""How tensors were computed: the calls that lead to one, within an iteration."""

from __future__ import annotations

import torch

from port.scripts.observing.graph import Computations
from port.scripts.observing.known_models import KnownModels


def made() -> Computations:
    return Computations(KnownModels(lambda details: None))


def test_the_path_to_a_tensor() -> None:
    calls = made()
    batch, weight = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    calls.name(batch, {"batch": "loader", "part": "0"})
    product = batch * weight
    calls.note("mul", "function", (batch, weight), {}, product, None)
    other = batch + 1
    calls.note("add", "function", (batch, 1), {}, other, None)
    loss = product.sum()
    calls.note("sum", "function", (product,), {"dim": None}, loss, None)
    path, told = calls.path_to(loss)
    assert [call.name for call in path] == ["mul", "sum"]
    assert path[0].arguments["positional"][0] == {"batch": "loader", "part": "0", "tensor": "(2,) float32"}
    assert path[1].arguments == {
        "positional": [{"call": 1, "tensor": "(2,) float32"}],
        "named": {"dim": None},
    }
    assert told == {"call": 3, "tensor": "() float32"}


def test_what_is_written_in_place_has_both_calls() -> None:
    calls = made()
    label = torch.ones(2)
    calls.note("full", "function", (), {}, label, None)
    label.fill_(0)
    calls.note("fill_", "function", (label, 0), {}, label, None)
    assert [call.name for call in calls.path_to(label)[0]] == ["full", "fill_"]


def test_a_tensor_of_an_earlier_iteration_is_carried() -> None:
    calls = made()
    hidden = torch.ones(2)
    calls.note("lstm", "module", (), {}, hidden, {"line": 3})
    calls.begin_iteration(1)
    loss = hidden.sum()
    calls.note("sum", "function", (hidden,), {}, loss, None)
    path, _ = calls.path_to(loss)
    assert [call.name for call in path] == ["sum"]
    assert path[0].arguments["positional"][0] == {
        "carried": "hidden",
        "tensor": "(2,) float32",
        "where": {"line": 3},
    }


def test_gradients_are_known_through_what_is_computed_of_them() -> None:
    calls = made()
    gradient = torch.ones(2)
    calls.name(gradient, {"gradient": "model.weight"})
    step = gradient * 0.1
    calls.note("mul", "function", (gradient, 0.1), {}, step, None)
    assert calls.is_of_gradient(step) and not calls.is_of_gradient(torch.ones(2))
