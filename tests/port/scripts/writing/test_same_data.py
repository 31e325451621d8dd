"""Data that a written original.py makes: that it is another is seen."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, TensorDataset

from port.scripts.writing.same_data import difference_of


def test_data_that_is_another_is_seen() -> None:
    images, labels = torch.randn(9, 2), torch.arange(9)
    ours = DataLoader(TensorDataset(images, labels), batch_size=4)
    assert difference_of(ours, DataLoader(TensorDataset(images.clone(), labels), batch_size=4)) == ""
    changed = images.clone()
    changed[8, 1] += 1e-6
    faults: dict[str, Callable[[], DataLoader[object]]] = {
        "batch_size 4 and 3": lambda: DataLoader(ours.dataset, batch_size=3),
        "drop_last": lambda: DataLoader(ours.dataset, batch_size=4, drop_last=True),
        "another sampler": lambda: DataLoader(ours.dataset, batch_size=4, shuffle=True),
        "another length": lambda: DataLoader(TensorDataset(images[:8], labels[:8]), batch_size=4),
        "example 8": lambda: DataLoader(TensorDataset(changed, labels), batch_size=4),
    }
    for said, make in faults.items():
        assert said in difference_of(ours, make())
