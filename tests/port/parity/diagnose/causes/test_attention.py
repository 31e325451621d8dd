"""What attention's masks may be in Flax: zeros for logits that torch blocks, no mask at all."""

from __future__ import annotations

import pytest
import torch

from port.parity.diagnose.causes.attention import masked_logits
from port.parity.diagnose.causes.operation import TorchOperation

MASK = torch.tensor([[False, True, True], [False, False, True]])
LOGITS = torch.tensor([[0.3, -1.2, 0.7], [0.9, 0.4, -0.5]])


def kinds(input: torch.Tensor, *, in_place: bool, value: float = -torch.inf) -> set[str]:
    result = input.masked_fill(MASK, value)
    given = result if in_place else input
    operation = TorchOperation(0, "masked_fill", {"input": given, "mask": MASK, "value": value}, "", result=result)
    return {way.kind for way in masked_logits(operation)}


@pytest.mark.parametrize("in_place", [False, True])
def test_logits_may_be_filled_with_zeros(in_place: bool) -> None:
    assert {"mask-value", "mask-missing"} <= kinds(LOGITS, in_place=in_place)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_mask_of_numbers_is_missing_and_not_filled_with_zeros(in_place: bool) -> None:
    told = kinds(torch.zeros(2, 3), in_place=in_place)
    assert "mask-missing" in told
    assert "mask-value" not in told


def test_what_does_not_block_is_no_mask_value() -> None:
    assert "mask-value" not in kinds(LOGITS, in_place=False, value=2.0)
