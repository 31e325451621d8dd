"""A torch function's call read by its arguments' names, and done in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from port.pairs.notes import note
from port.parity.diagnose.causes.citing import cited_by, note_of
from port.parity.diagnose.causes.operation import TorchOperation, having
from port.parity.diagnose.causes.rerun import rerun
from port.parity.diagnose.causes.search import EXPLANATIONS
from port.parity.sides.inputs import inputs_from
from port.parity.sides.torch_side import TorchSide

X = torch.randn((2, 4, 6, 6), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Calls(nn.Module):
    """One call of a function."""

    def __init__(self, call: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.call, self.inner = call, nn.Identity()

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(self.inner(x))


def operations(call: Callable[[torch.Tensor], Any]) -> list[TorchOperation]:
    return rerun(TorchSide(Calls(call), "float64"), inputs_from(X, "float64"), training=False).operations


@pytest.mark.parametrize(
    ("call", "name", "argument", "value"),
    [
        (lambda x: functional.gelu(x, approximate="tanh"), "gelu", "approximate", "tanh"),
        (lambda x: functional.max_pool2d(x, 2, ceil_mode=True), "max_pool2d", "ceil_mode", True),
        (lambda x: functional.max_pool2d(x, 3, 2, 1), "max_pool2d", "padding", 1),
        (lambda x: functional.avg_pool2d(x, 3, 2, 1), "avg_pool2d", "padding", 1),
        (lambda x: x.softmax(-1), "softmax", "dim", -1),
        (lambda x: torch.softmax(x, 1), "softmax", "dim", 1),
        (lambda x: functional.softmax(x, dim=2), "softmax", "dim", 2),
        (lambda x: x.masked_fill(x > 0, 1.0), "masked_fill", "value", 1.0),
        (lambda x: functional.layer_norm(x, (6,), eps=1e-3), "layer_norm", "eps", 1e-3),
        (lambda x: torch.relu_(x.clone()), "relu", "input", None),
    ],
)
def test_arguments_have_their_names(call: Any, name: str, argument: str, value: Any) -> None:
    (found,) = [operation for operation in operations(call) if operation.name == name]
    told = found.arguments.get(argument)
    assert value is None or told == value


def test_a_call_done_in_another_way() -> None:
    side, given = TorchSide(Calls(lambda x: torch.softmax(x, 1)), "float64"), inputs_from(X, "float64")
    (number,) = [op.number for op in operations(lambda x: torch.softmax(x, 1)) if op.name == "softmax"]
    done = rerun(side, given, training=False, ways={number: having(dim=-1)})
    assert torch.equal(torch.from_numpy(done.outputs[""]), X.softmax(-1))
    assert torch.equal(torch.from_numpy(rerun(side, given, training=False).outputs[""]), X.softmax(1))


def test_a_run_ends_at_the_call_that_it_goes_to() -> None:
    done = rerun(TorchSide(Calls(torch.tanh), "float64"), inputs_from(X, "float64"), training=False, until="inner#0")
    assert done.call is not None
    assert done.call.path == "inner"
    assert "tanh" not in [operation.name for operation in done.operations]


CALLS: tuple[Callable[[torch.Tensor], Any], ...] = (
    functional.gelu,
    torch.relu,
    lambda x: functional.leaky_relu(x, 0.2),
    lambda x: x.softmax(-1),
    lambda x: functional.layer_norm(x, (6,), torch.ones(6, dtype=x.dtype), torch.ones(6, dtype=x.dtype)),
    lambda x: functional.group_norm(x, 2),
    lambda x: functional.batch_norm(x, torch.zeros(4).to(x), torch.ones(4).to(x)),
    lambda x: functional.conv2d(x, torch.ones(4, 4, 3, 3).to(x), torch.ones(4).to(x), stride=2, padding=1),
    lambda x: functional.linear(x, torch.ones(6, 6).to(x), torch.ones(6).to(x)),
    lambda x: functional.max_pool2d(x, 3, 2, 1),
    lambda x: functional.avg_pool2d(x, 3, 2, 1),
    lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: torch.cat([x, -x], 1),
    lambda x: x.flatten(1),
    lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    lambda x: x.masked_fill(x > 0, -torch.inf),
    lambda x: x / 3,
    lambda x: x.view(2, 4, 6, 2, 3),
    lambda x: x.chunk(3, -1),
    lambda x: x[:, -1],
)


def test_each_way_has_a_remedy_or_a_note_that_has_one() -> None:
    kinds = set()
    for call in CALLS:
        for operation in operations(call):
            for explanation in EXPLANATIONS:
                for way in explanation(operation):
                    kinds.add(way.kind)
                    assert way.why
                    assert way.kind == way.kind.lower()
                    assert way.remedy or note(note_of(way.kind, cited_by(operation.name, None))).remedy
    assert len(kinds) > 25
