"""Targets that are no class are refused, where torch's CTC loss would read outside of its arrays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from port.translation.verify.checked_classes import checked_classes
from port.translation.verify.torch_run import torch_outputs, torch_run


def call(classes: int, targets: torch.Tensor, lengths: tuple[int, ...] = (3, 2)) -> tuple[torch.Tensor, ...]:
    log_probs = torch.randn(9, 2, classes, dtype=torch.float64).log_softmax(-1)
    return log_probs, targets, torch.tensor([9, 9]), torch.tensor(lengths)


PADDED = torch.tensor([[1, 4, 2], [3, 1, 99]])
"""Of five classes; the last is padding."""
JOINED = torch.tensor([1, 4, 2, 3, 1])


@pytest.mark.parametrize("targets", [PADDED, JOINED], ids=["padded", "joined"])
def test_what_is_out_of_range_is_refused_and_nothing_else(targets: torch.Tensor) -> None:
    loss = nn.CTCLoss()
    plain = loss(*call(5, targets))
    with checked_classes():
        assert torch.isfinite(loss(*call(5, targets))) and torch.isfinite(plain)
        with pytest.raises(IndexError, match="none of its 4 classes"):
            loss(*call(4, targets))


def test_padding_that_is_read_is_refused() -> None:
    with checked_classes(), pytest.raises(IndexError, match="none of its 5 classes"):
        nn.CTCLoss()(*call(5, PADDED, (3, 3)))


def test_a_negative_target_and_one_text_alone() -> None:
    log_probs = torch.randn(9, 5).log_softmax(-1)
    with checked_classes():
        nn.CTCLoss()(log_probs, torch.tensor([1, 4]), torch.tensor(9), torch.tensor(2))
        with pytest.raises(IndexError, match=r"\[1, -1\]"):
            nn.CTCLoss()(log_probs, torch.tensor([1, -1]), torch.tensor(9), torch.tensor(2))


def test_runs_of_the_original_are_checked() -> None:
    loss = nn.CTCLoss()
    with pytest.raises(IndexError, match="classes"):
        torch_outputs(loss, (call(4, PADDED), {}), False, 0)
    with pytest.raises(IndexError, match="classes"):
        torch_run(loss, (call(4, PADDED), {}), False, 0)
    assert torch_outputs(loss, (call(5, PADDED), {}), False, 0)[0].shape == ()
