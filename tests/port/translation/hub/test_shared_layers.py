"""Layers that share their weights are told from those that have their own."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from port.translation.hub.hub_model import HubModel
from port.translation.hub.shared_layers import rounds_needed
from port.translation.passes.repeats import FEWEST

transformers = pytest.importorskip("transformers", reason="an extra of the tests'")


class Config(transformers.PretrainedConfig):  # type: ignore[misc]
    model_type = "shared_layers_of_tests"
    layers: int = 12
    shared: bool = True

    def __init__(self, layers: int = 12, shared: bool = True, **kwargs: Any) -> None:
        self.layers, self.shared = layers, shared
        super().__init__(**kwargs)


class Model(transformers.PreTrainedModel):  # type: ignore[misc]
    config_class = Config

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        if config.layers % 2 and not config.shared:
            raise ValueError("an even number of layers")
        self.blocks = nn.ModuleList(nn.Linear(3, 3) for _ in range(1 if config.shared else config.layers))


class Odd(Model):
    def __init__(self, config: Config) -> None:
        transformers.PreTrainedModel.__init__(self, config)
        self.blocks = nn.ModuleList(nn.Linear(3, 3) for _ in range(config.layers))


@pytest.mark.parametrize(
    ("model", "config", "rounds"),
    [
        (Model, Config(), FEWEST),
        (Model, Config(FEWEST), FEWEST),
        (Model, Config(FEWEST - 1), 0),  # no loop, whatever they are
        (Model, Config(shared=False), 0),  # of which nothing is known
        (Odd, Config(), 0),
    ],
)
def test_a_loop_through_the_same_layers_has_rounds(model: Any, config: Config, rounds: int) -> None:
    before = config.layers
    assert rounds_needed(HubModel(model, config), ("layers",)) == rounds
    assert config.layers == before
