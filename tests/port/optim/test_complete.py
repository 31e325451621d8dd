"""A state of which a part is missing is refused, by the parameter and the key."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import port
from models.recorded import Recorded, torch_step
from port.errors import WeightsMismatch
from port.optim.complete import refuse_incomplete
from port.optim.from_torch import resolved_names

MADE: dict[str, Any] = {
    "Adam": lambda params: torch.optim.Adam(params),
    "Adam, amsgrad": lambda params: torch.optim.Adam(params, amsgrad=True),
    "AdamW": lambda params: torch.optim.AdamW(params),
    "Adamax": lambda params: torch.optim.Adamax(params),
    "NAdam": lambda params: torch.optim.NAdam(params),
    "RAdam": lambda params: torch.optim.RAdam(params),
    "Adagrad": lambda params: torch.optim.Adagrad(params),
    "Adadelta": lambda params: torch.optim.Adadelta(params),
    "RMSprop": lambda params: torch.optim.RMSprop(params),
    "RMSprop, both": lambda params: torch.optim.RMSprop(params, momentum=0.9, centered=True),
    "Rprop": lambda params: torch.optim.Rprop(params),
    "ASGD": lambda params: torch.optim.ASGD(params),
    "Adafactor": lambda params: torch.optim.Adafactor(params),
}


def stepped(recorded: Recorded, name: str) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    module = recorded.fresh()
    optimizer = MADE[name](module.parameters())
    torch_step(module, optimizer, recorded.gradients[0])
    return module, optimizer


def read(recorded: Recorded, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    named = resolved_names(optimizer, recorded.mapping, None, module)
    refuse_incomplete(optimizer, named)


@pytest.mark.parametrize("name", MADE)
def test_all_that_torch_keeps_is_wanted_and_no_more(name: str, recorded: Recorded) -> None:
    module, optimizer = stepped(recorded, name)
    read(recorded, module, optimizer)
    for parameter, path in ((module.fc1.weight, "fc1.weight"), (module.fc2.bias, "fc2.bias")):
        for key, value in dict(optimizer.state[parameter]).items():
            if value is None:
                continue
            del optimizer.state[parameter][key]
            with pytest.raises(WeightsMismatch, match=rf"{path}: the optimizer's state of it lacks {key}, without"):
                read(recorded, module, optimizer)
            optimizer.state[parameter][key] = value


def test_a_parameter_without_any_state_is_fresh(recorded: Recorded) -> None:
    module, optimizer = stepped(recorded, "Adam")
    optimizer.state[module.fc2.bias] = {}
    read(recorded, module, optimizer)
    optimizer.state.clear()
    read(recorded, module, optimizer)


def test_options_that_want_more_than_there_is(recorded: Recorded) -> None:
    module, optimizer = stepped(recorded, "RMSprop")
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(WeightsMismatch, match=r"fc1\.weight: .* lacks momentum_buffer"):
        port.to_optax(optimizer, params=recorded.params, mapping=recorded.mapping, model=module)
    sgd = torch.optim.SGD(module.parameters(), lr=0.1)
    torch_step(module, sgd, recorded.gradients[0])
    sgd.param_groups[0]["momentum"] = 0.9  # torch begins a buffer where there is none
    read(recorded, module, sgd)
