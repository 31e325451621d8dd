"""The path from a batch to its loss, written as a torch module: under the script's names, and giving the same loss."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from port.scripts.observing.graph import Computation
from port.scripts.writing.capture import LossPath, PathTensor
from port.scripts.writing.loss_source import inputs_of, loss_source, varying_numbers

X, TARGET = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])


def batch(part: str, value: torch.Tensor, variable: str | None = None) -> PathTensor:
    return PathTensor({"batch": "loader", "part": part}, None, variable, value)


def call(number: int, name: str, *args: object, kind: str = "function", **more: object) -> Computation:
    return Computation(number, name, kind, None, None, set(), None, 0, more, (args, {}))


def path(factor: float) -> LossPath:
    calls = [
        call(1, "torch.Tensor.view", batch("0", X, "images"), -1, 3),
        call(2, "model", PathTensor({}, 1, None, None), kind="module", has_parameters=True, grad=True),
        call(3, "torch.nn.functional.cross_entropy", PathTensor({}, 2, None, None), batch("1", TARGET)),
        call(4, "torch.randn", 2),
        call(5, "torch.Tensor.mean", PathTensor({}, 4, "noise", torch.ones(2))),
        call(6, "torch.Tensor.mul", PathTensor({}, 3, None, None), factor),
        call(7, "torch.Tensor.add", PathTensor({}, 6, None, None), PathTensor({}, 5, "extra", torch.tensor(0.5))),
        call(8, "torch.Tensor.__rsub__", PathTensor({}, 7, None, None), 1),
    ]
    return LossPath(0, calls, 0.0)


def test_the_written_module_gives_the_same_loss() -> None:
    source = loss_source(path(2.0), "train.py")
    assert source.inputs == ("images", "batch_1", "extra") and source.modules == ("model",)
    space: dict[str, object] = {}
    exec(source.text, space)
    model = nn.Linear(3, 2)
    loss = space["FromBatchToLoss"](model)(**inputs_of(path(2.0)))  # type: ignore[operator]
    torch.testing.assert_close(loss, 1 - (F.cross_entropy(model(X), TARGET) * 2 + 0.5))


def test_a_number_that_changes_is_an_input() -> None:
    paths = [path(2.0), path(3.0)]
    varying = varying_numbers(paths)
    assert loss_source(paths[0], "train.py", varying).inputs == ("images", "batch_1", "extra", "number")
    assert [inputs_of(one, varying)["number"].item() for one in paths] == [2.0, 3.0]
    assert varying_numbers([paths[0], paths[0]]) == frozenset()


def test_a_model_that_is_called_without_gradients_is_cut_off() -> None:
    teacher = call(1, "teacher.net.0", batch("0", X), kind="module", has_parameters=True, grad=False)
    loss = call(2, "torch.Tensor.sum", PathTensor({}, 1, None, None))
    text = loss_source(LossPath(0, [teacher, loss], 0.0), "train.py").text
    assert "x1 = self.teacher.net[0](batch_0).detach()" in text


def test_parts_and_numbers_that_have_no_literal() -> None:
    calls = [
        call(1, "torch.Tensor.__getitem__", batch("0", X, "x"), (slice(None), slice(None, -1))),
        call(2, "torch.Tensor.__getitem__", PathTensor({}, 1, None, None), (slice(1, None),)),
        call(3, "torch.Tensor.masked_fill", PathTensor({}, 2, None, None), batch("1", X[1:, :-1] > 2), float("-inf")),
        call(4, "torch.Tensor.clamp", PathTensor({}, 3, None, None), -1.5, float("inf")),
        call(5, "torch.sum", PathTensor({}, 4, None, None), (0, 1), kind="function"),
    ]
    written = loss_source(LossPath(0, calls, 0.0), "train.py")
    assert "x1 = x[:, :-1]\n" in written.text and "x2 = x1[1:,]\n" in written.text
    space: dict[str, object] = {}
    exec(written.text, space)
    assert space["FromBatchToLoss"]()(**inputs_of(LossPath(0, calls, 0.0))).item() == 6.0  # type: ignore[operator]


def test_a_device_is_not_said() -> None:
    made = call(1, "torch.Tensor.cumsum", batch("0", X, "x"), 0)
    assert made.live is not None
    made.live = made.live[0], {"device": torch.device("cpu"), "dtype": torch.float64}
    assert "x.cumsum(0, dtype=torch.float64)\n" in loss_source(LossPath(0, [made], 0.0), "train.py").text
