"""Every scheduler that is known has an example, and it can be carried out."""

from __future__ import annotations

import torch

from port.pairs.schedules import SCHEDULES
from port.pairs.schedules.examples import EXAMPLES


def test_every_scheduler_has_one():
    shown = {example.body.function for example in EXAMPLES}
    several = {f"torch.optim.lr_scheduler.{name}" for name in ("ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")}
    assert shown == {pair.torch for pair in SCHEDULES} | several


def test_each_builds_what_it_says():
    for example in EXAMPLES:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
        scheduler = example.build()(optimizer)
        assert type(scheduler).__name__ == example.body.function.rpartition(".")[2]
        assert type(scheduler).__name__ in example.body.source()
