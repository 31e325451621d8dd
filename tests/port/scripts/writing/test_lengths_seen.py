"""Ragged batches are said; a smaller last batch is none."""

from __future__ import annotations

import torch

from port.scripts.writing.lengths_seen import remarks_on_lengths


def test_each_batch_has_another_length() -> None:
    batches = [{"text": torch.zeros(length), "label": torch.zeros(4)} for length in (31, 25, 40, 25)]
    (said,) = remarks_on_lengths(batches)
    assert said.startswith("text: the length differs in each batch")


def test_a_smaller_last_batch_is_none() -> None:
    assert remarks_on_lengths([{"x": torch.zeros(size, 5)} for size in (8, 8, 3, 8)]) == []
