"""Dropout shared with a program that runs by itself: of layers that draw inside, as recurrent ones do."""

from __future__ import annotations

import torch
from torch import nn

from port.random import dropout_key
from port.random.dropout import drops_within_layers
from port.random.dropout_of_run import DropoutOfRun


def test_which_layers_drop_within() -> None:
    recurrent = nn.Sequential(nn.LSTM(3, 4, 2, dropout=0.5))
    attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1)
    assert drops_within_layers(recurrent) and drops_within_layers(attention)
    for module in (nn.LSTM(3, 4, 2), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), nn.Dropout(0.5)):
        assert not drops_within_layers(module)


def test_a_step_of_a_recurrent_layer_draws_by_its_key() -> None:
    torch.manual_seed(0)
    model, x = nn.LSTM(3, 4, 2, dropout=0.5).double(), torch.randn(5, 2, 3, dtype=torch.float64)

    def loss(step: int | None) -> float:
        run = DropoutOfRun((), x64=True)
        run.watch(model)
        if step is not None:
            run.begin(dropout_key(0, step, x64=True))
        with run:
            found = float(model(x)[0].sum().detach())
        run.end()
        return found

    assert loss(1) == loss(1) != loss(2)
    assert loss(None) != loss(None)  # as torch draws it


def test_no_hook_stays_behind() -> None:
    hooks = torch.nn.modules.module._global_forward_hooks
    before, run = dict(hooks), DropoutOfRun((), x64=True)
    with run:
        run.watch(nn.LSTM(3, 4, 2, dropout=0.5))
        assert dict(hooks) != before
    assert dict(hooks) == before


def test_an_evaluation_begins_nothing() -> None:
    run = DropoutOfRun((), x64=True)
    run.watch(nn.LSTM(3, 4, 2, dropout=0.5))
    run.begin(dropout_key(0, 1, x64=True), ())
    with run:
        assert not torch.equal(torch.rand(3), torch.rand(3))  # torch's own
