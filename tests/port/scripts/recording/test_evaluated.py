"""What an evaluation gives: the mean loss of its batches; without loaders the losses that the script finds itself."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from port.scripts.found_by_script import FoundByScript
from port.scripts.recording.evaluated import Evaluated


class Mean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x.mean()


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_batch_is_evaluated_when_the_model_is_called(ahead: int) -> None:
    """Also where its loader has been asked for the next one by then, and has said that there is none."""
    module = Mean()
    evaluated = Evaluated(module, lambda number: nullcontext())
    batches = [torch.full((size,), float(size)) for size in (3, 3, 2)]
    given = iter(batches)
    for batch in [next(given) for _ in range(ahead)]:
        evaluated.wait([batch])
    for number in range(len(batches)):
        following = next(given, None)
        if following is None:
            evaluated.pass_ended()
            assert not evaluated.is_whole
        if following is not None:
            evaluated.wait([following])
        evaluated.take()
        assert evaluated.is_whole == (ahead == 1 and number == 2)
        if not ahead:
            evaluated.take()  # called once more with the same batch
    evaluated.pass_ended()
    assert evaluated.is_whole
    assert evaluated.end() == pytest.approx((3 * 3 + 3 * 3 + 2 * 2) / 8) and evaluated.end() is None


def number(value: float, *calls: str, length: int = 2, grad: bool = False) -> dict[str, Any]:
    told = {"positional": [{"tensor": f"({length}, 3) int64"}], "named": {}}
    path = [{"name": name, "arguments": told, "has_parameters": name == "model"} for name in calls]
    return {"value": value, "grad": grad, "path": path, "parameter": None}


def test_the_mean_over_examples() -> None:
    found = FoundByScript(["model", "criterion"])
    found.see(number(1.0, "torch.Tensor.view", "model", "criterion"))
    found.see(number(4.0, "model", "torch.Tensor.detach", "model", "criterion", length=1))  # a state carried over
    found.see(number(9.0, "model", "criterion", "torch.Tensor.mul"))  # something else
    found.see(number(9.0, "model"))
    found.see(number(9.0, "model", "criterion", grad=True))  # in training
    assert found.end() == 2.0 and found.end() is None
