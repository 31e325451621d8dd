"""Paths to a loss: what makes a batch is no part of them, and what is carried over is known behind a detach."""

from __future__ import annotations

from typing import Any

import torch

from port.scripts.observing.graph import Computation
from port.scripts.writing.capture import LossPath, PathTensor, TensorAxis, path_tensors
from port.scripts.writing.followed import followed
from port.scripts.writing.loss_source import inputs_of, loss_source
from port.scripts.writing.states import variable_of, with_states

WORDS, HIDDEN = torch.zeros(3, 2, dtype=torch.int64), torch.ones(4)


def call(number: int, name: str, *args: object, **more: object) -> Computation:
    kind = "function" if name.startswith("torch.") else "module"
    return Computation(number, name, kind, None, None, set(), None, 0, more, (args, {}))


def tensor(call: int | None = None, value: torch.Tensor | None = None, **more: Any) -> PathTensor:
    return PathTensor(more.pop("description", {}), call, value=value, **{"variable": None, **more})


def step(first: int, hidden: PathTensor, *, through: str = "detach") -> LossPath:
    """Words cut from a text, words behind them that are flattened, and a state that is detached."""
    text = PathTensor({"variable": "text"}, None, "text", torch.arange(9))
    words = tensor(None, WORDS, variable="data")
    return LossPath(
        0,
        [
            call(first, "torch.Tensor.__getitem__", text, 3),
            call(first + 1, "torch.Tensor.view", tensor(first, WORDS), -1),
            call(first + 2, f"torch.Tensor.{through}", hidden),
            call(first + 3, "model", words, tensor(first + 2, HIDDEN), has_parameters=True),
            call(first + 4, "criterion", tensor(first + 3), tensor(first + 1, WORDS.view(-1), variable="targets")),
        ],
        0.0,
    )


def names(path: LossPath) -> list[str]:
    return [one.name for one in path.calls]


def test_what_makes_a_batch_is_an_input() -> None:
    draw = call(1, "torch.randperm", 8)
    cut = call(2, "torch.Tensor.__getitem__", tensor(None, variable="points"), tensor(1, WORDS))
    model = call(3, "model", tensor(2, WORDS), has_parameters=True, grad=True)
    assert names(followed(LossPath(0, [draw, cut, model], 0.0))) == ["model"]


def test_what_is_made_like_a_parameter_is_none() -> None:
    zeros = call(1, "torch.Tensor.new_zeros", tensor(description={"parameter": "model.weight"}), 4)
    model = call(2, "model", tensor(1, HIDDEN), has_parameters=True)
    assert names(followed(LossPath(0, [zeros, model], 0.0))) == ["model"]
    scaled = call(1, "torch.Tensor.mul", tensor(description={"parameter": "model.weight"}), 4)
    assert names(followed(LossPath(0, [scaled, model], 0.0))) == ["torch.Tensor.mul", "model"]


def test_what_flattens_the_words_behind_is_followed() -> None:
    path = followed(step(1, tensor(None, HIDDEN)))
    assert names(path) == ["model", "torch.Tensor.view", "criterion"]
    inputs = inputs_of(path)
    shapes = {name: tuple(one.shape) for name, one in inputs.items()}
    assert shapes == {"data": (3, 2), "input_1": (4,), "targets": (3, 2)}


def test_a_state_is_an_argument_and_a_result() -> None:
    later = tensor(None, HIDDEN, description={"carried": "h"}, origin=(4, "1"))
    paths = with_states([followed(step(1, tensor(None, HIDDEN))), followed(step(11, later))])
    assert [path.goes_on for path in paths] == [False, True]
    assert list(paths[0].states.values()) == [(4, "1")] and list(paths[1].states.values()) == [(14, "1")]
    (name,) = paths[0].states
    source = loss_source(paths[0], "train.py")
    assert source.states == (name,) and source.inputs[-1] == name and f", {name})" in source.text
    assert source.text.rstrip().endswith("return x3, x1[1]")


def test_a_state_that_is_changed_on_the_way_is_none() -> None:
    later = tensor(None, HIDDEN, description={"carried": "h"}, origin=(4, "1"))
    paths = with_states([followed(step(1, tensor(None, HIDDEN))), followed(step(11, later, through="mul"))])
    assert not any(path.states for path in paths)
    assert all(
        "state" not in one.description for path in paths for call in path.calls for one in path_tensors(call.live)
    )


def test_a_part_has_the_name_of_its_variable() -> None:
    assert variable_of("hidden_0") == variable_of("hidden") == "hidden"


def test_what_is_counted_along_a_batch_is_followed() -> None:
    model = call(1, "model", tensor(None, WORDS, description={"batch": "loader", "part": "0"}), has_parameters=True)
    counted = call(2, "torch.arange", 3)
    loss = call(3, "criterion", tensor(1), tensor(2, torch.arange(3)))
    calls = [model, counted, loss]
    given = {2: {0: TensorAxis(tensor(1), 0)}}
    path = followed(LossPath(0, calls, 0.0, lengths=given))
    assert names(path) == ["model", "torch.arange", "criterion"]
    assert "torch.arange(x1.size(0))" in loss_source(path, "train.py").text
    assert names(followed(LossPath(0, calls, 0.0))) == ["model", "criterion"]  # three of what, is not known
    drawn = [model, call(2, "torch.randperm", 3), loss]
    assert names(followed(LossPath(0, drawn, 0.0, lengths=given))) == ["model", "criterion"]
