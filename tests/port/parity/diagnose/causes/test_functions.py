"""Steps of torch's code done as Flax's may do them: each way of a kind gives what that mistake gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from port.parity.diagnose.causes.functions import EXPLANATIONS as FUNCTIONS
from port.parity.diagnose.causes.rerun import rerun
from port.parity.diagnose.causes.steps import EXPLANATIONS as STEPS
from port.parity.sides.inputs import inputs_from
from port.parity.sides.torch_side import TorchSide

X = torch.rand((3, 4, 4), generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.1
Call = Callable[[torch.Tensor], torch.Tensor]


class Calls(nn.Module):
    """Some calls of functions."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x)


def ways_giving(call: Call, wanted: torch.Tensor) -> set[str]:
    """The kinds of ways, of all operations that one sentence is true of, with which a call gives something else."""
    side, given = TorchSide(Calls(call), "float64"), inputs_from(X, "float64")
    first = rerun(side, given, training=False, located=True)
    groups: dict[tuple[str, str], dict] = {}
    for operation in first.operations:
        for explanation in (*FUNCTIONS, *STEPS):
            for way in explanation(operation):
                groups.setdefault((way.kind, way.why), {})[operation.number] = way.run
    found = set()
    for (kind, _), ways in groups.items():
        try:
            done = rerun(side, given, training=False, ways=ways)
        except Exception:
            continue
        result = torch.from_numpy(done.outputs[""])
        if result.shape == wanted.shape and torch.allclose(result, wanted, rtol=1e-12):
            found.add(kind)
    return found


@pytest.mark.parametrize(
    ("call", "other", "kind"),
    [
        (lambda x: x.mean(1), lambda x: x.sum(1), "mean-or-sum"),
        (lambda x: x.mean((1, 2)), lambda x: x.amax((1, 2)), "another-reduction"),
        (lambda x: x.std(1), lambda x: x.var(1), "variance-or-deviation"),
        (lambda x: x.sum(1), lambda x: x.sum(2), "another-axis"),
        (lambda x: x.cumsum(1), lambda x: x.cumsum(2), "another-axis"),
        (lambda x: x.flip(1), lambda x: x.flip(2), "another-axis"),
        (lambda x: nn.functional.softplus(x), torch.exp, "another-function"),
        (lambda x: x.sin() + 2 * x.cos(), lambda x: x.cos() + 2 * x.sin(), "sine-and-cosine"),
        (lambda x: x.argmin(1).double(), lambda x: x.argmax(1).double(), "another-function"),
        (lambda x: x.topk(2, -1)[0].sum(-1), lambda x: x.topk(3, -1)[0].sum(-1), "number-taken"),
        (lambda x: x * x.mean(0), lambda x: x + x.mean(0), "another-function"),
        (lambda x: x - x.mean(0), lambda x: x.mean(0) - x, "operands-exchanged"),
        (lambda x: x @ x.mean(0), lambda x: x.mean(0) @ x, "operands-exchanged"),
        (lambda x: x * x.mean(0), lambda x: x * (1 + x.mean(0)), "scale-plus-one"),
        (lambda x: torch.where(x > 0.5, x, -x), lambda x: torch.where(x > 0.5, -x, x), "choice-reversed"),
        (lambda x: x.tril(), lambda x: x.tril(-1), "triangle-shifted"),
        (lambda x: x.tril(), lambda x: x.triu(), "other-triangle"),
        (lambda x: x.repeat_interleave(2, dim=1), lambda x: x.repeat(1, 2, 1), "repeated-in-turn"),
        (lambda x: x.repeat(1, 2, 1), lambda x: x.repeat_interleave(2, dim=1), "repeated-beside"),
        (lambda x: x.clamp(0.3, 0.7), lambda x: x.clamp(max=0.7), "bound-missing"),
        (lambda x: x.neg() + x.exp(), lambda x: x + x.exp(), "step-missing"),
        (lambda x: x * x.mean(0), lambda x: x, "step-missing"),
        (lambda x: x.reshape(3, 2, 8).transpose(1, 2).sum(2), lambda x: x.reshape(3, 8, 2).sum(2), "axes-not-moved"),
        (lambda x: torch.cat([x, -x], -1), lambda x: torch.stack([x, -x], -1).flatten(-2), "interleaved"),
        (lambda x: torch.stack([x, -x], -1).flatten(-2), lambda x: torch.cat([x, -x], -1), "interleaved"),
        (lambda x: x.chunk(2, -1)[0], lambda x: x[..., ::2], "interleaved"),
        (lambda x: x[..., ::2] * 2, lambda x: x[..., :2] * 2, "interleaved"),
    ],
)
def test_each_mistake_is_a_way(call: Call, other: Call, kind: str) -> None:
    wanted = other(X)
    assert kind in ways_giving(call, wanted)
    assert not ways_giving(call, wanted + 1e-3)


def test_an_operation_knows_its_line() -> None:
    first = rerun(
        TorchSide(Calls(lambda x: x.neg()), "float64"), inputs_from(X, "float64"), training=False, located=True
    )
    (line,) = [operation.line for operation in first.operations if operation.name == "neg"]
    assert line.startswith("test_functions.py:")
    assert "x.neg()" in line


class Twice(nn.Module):
    """Two layers, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x))


def test_a_layers_call_is_done_in_another_way() -> None:
    side, given = TorchSide(Twice(), "float64"), inputs_from(X, "float64")
    first = rerun(side, given, training=False)
    assert [(call.number, call.layer) for call in first.layers] == [(-1, "one"), (-2, "two")]
    done = rerun(side, given, training=False, ways={-2: lambda function, arguments: function(function(arguments["0"]))})
    assert torch.equal(torch.from_numpy(done.outputs[""]), torch.from_numpy(first.outputs[""]).tanh())
    # What a layer's other way calls is none of the run's own operations.
    assert [operation.name for operation in done.operations] == [operation.name for operation in first.operations]
