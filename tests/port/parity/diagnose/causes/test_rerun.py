"""What stands in the calls of torch's functions while its model runs again."""

from __future__ import annotations

import torch

from port.parity.diagnose.causes.rerun import instrumented


def doubled_without_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    return y + x


def test_a_mode_that_is_set_is_no_operation() -> None:
    x = torch.ones(3, requires_grad=True)
    with instrumented({}) as operations:
        doubled_without_gradient(x)
    names = [operation.name for operation in operations]
    assert names == ["mul", "add"]
    # Any of them done in another way leaves gradients on.
    for number in range(len(names)):
        with instrumented({number: lambda function, arguments: x}):
            assert doubled_without_gradient(x).requires_grad
        assert torch.is_grad_enabled()


def test_a_run_that_ends_within_no_grad_leaves_gradients_on() -> None:
    with instrumented({}):
        torch._C._set_grad_enabled(False)
    assert torch.is_grad_enabled()
