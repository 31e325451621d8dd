"""One trace serves both modes if nothing reads the mode; otherwise each mode has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.frontend import diagnostics, mode_reads
from port.translation.frontend.diagnostics import BothModes
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.ir.graph import Graph, LayerCall
from port.translation.ir.printer import print_graph


class Plain(nn.Module):
    """Does not read the mode; its layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.3))
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)[:, None]
        attended: Tensor = self.attention(x, x, x)[0]
        return attended[:, 0]


class Scaled(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (3 if self.training else 2)


class OfItsLayer(Plain):
    """Reads the mode of a layer kept whole, from outside."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (3 if self.layers[2].training else 2)


class Asked(Plain):
    """Reads the mode by the attribute's name."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (3 if getattr(self, "training", False) else 2)


class Functional(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class Noted(Plain):
    """Its `train` does more than set the flag: forward reads another attribute."""

    noted = False

    def train(self, mode: bool = True) -> Noted:
        self.noted = mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (3 if self.noted else 2)


class OfItsOwn(Plain):
    """Reads a flag that is not torch's."""

    @property
    def training(self) -> bool:  # type: ignore[override]
        return bool(self.__dict__.get("is_training"))

    @training.setter
    def training(self, mode: bool) -> None:
        self.__dict__["is_training"] = mode

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (3 if self.training else 2)


class Setting(Plain):
    """Puts a layer into evaluation permanently, which changes its next call."""

    def forward(self, x: Tensor) -> Tensor:
        self.layers[2].eval()
        return super().forward(x)


def hooked() -> nn.Module:
    """A layer kept whole, with a hook that reads the mode."""
    module = Plain()
    module.layers[0].register_forward_hook(lambda layer, args, result: result * (3 if layer.training else 2))
    return module


class Listed(Plain):
    """Reads the mode of a module in a plain list, which torch does not know of."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = [self.layers[2]]

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (3 if self.listed[0].training else 2)


ASKING: dict[str, Callable[[], nn.Module]] = {
    **{cls.__name__: cls for cls in (Scaled, OfItsLayer, Asked, Functional, Noted, OfItsOwn, Setting, Listed)},
    "hooked": hooked,
}
X = torch.randn(5, 6)


def both(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[bool, Graph], int]:
    """A module's graphs, and the number of traces that were made for them."""
    traces = 0
    traced = diagnostics.traced

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal traces
        traces += 1
        return traced(*args, **kwargs)

    monkeypatch.setattr(diagnostics, "traced", counted)
    modes = BothModes(module, (X,), {}, layers=kept_layers(module))
    return {training: modes.graph(training=training) for training in (False, True)}, traces


def test_one_trace_is_of_both_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Plain()
    graphs, traces = both(module, monkeypatch)
    assert traces == 1
    alone = BothModes(module, (X,), {}, layers=kept_layers(module)).graph(training=True)
    assert print_graph(graphs[True]) == print_graph(alone)
    for training, graph in graphs.items():
        layers = [step.module for step in graph.steps if isinstance(step, LayerCall)]
        assert len(layers) == 4 and all(layer.training is training for layer in layers)
    values = [{id(value) for value in graph.inputs} for graph in graphs.values()]
    assert values[0].isdisjoint(values[1])


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_for_the_mode_is_traced_in_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs, traces = both(ASKING[name](), monkeypatch)
    assert traces == 2
    if name != "Setting":
        assert print_graph(graphs[True]) != print_graph(graphs[False])


@pytest.mark.parametrize("name", ["Scaled", "Noted", "hooked"])
@pytest.mark.sweep
def test_it_is_written_as_it_asks(name: str) -> None:
    translation = port.translate(ASKING[name](), X)
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)


@pytest.mark.sweep
def test_a_trace_that_is_not_of_both_modes_is_found_by_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: reads go unnoticed, so that training is written like evaluation."""
    monkeypatch.setattr(
        mode_reads.ModeReads, "found", property(lambda self: False, lambda self, found: None), raising=False
    )
    translation = port.translate(Scaled(), X)
    assert translation.proof is not None and not translation.proof.agrees


class Choosy(nn.Module):
    """A layer with fewer outputs in training."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:2] if self.training else x


def reads_of(layer: nn.Module, gives: Callable[[bool], Any]) -> mode_reads.ModeReads:
    reads = mode_reads.ModeReads(layer)
    with reads.watched():
        reads.of_layer(gives, lambda made: made.shape)
    return reads


@pytest.mark.parametrize(("layer", "found"), [(nn.Dropout(), False), (nn.Linear(6, 6), False), (Choosy(), True)])
def test_a_layer_may_ask_if_its_shapes_are_the_same(layer: nn.Module, found: bool) -> None:
    def gives(other_mode: bool) -> Tensor:
        given: Tensor = layer.train(other_mode)(X)
        return given

    assert reads_of(layer, gives).found is found


def test_a_layer_that_fails_in_the_other_mode_is_not_the_same_there() -> None:
    layer = nn.Dropout()

    def gives(other_mode: bool) -> Tensor:
        if other_mode:
            raise ValueError("not here")
        given: Tensor = layer(X)
        return given

    assert reads_of(layer, gives).found


def test_what_was_found_before_a_layer_stays_found() -> None:
    reads = mode_reads.ModeReads(nn.Linear(6, 6))
    reads.found = True
    assert reads.of_layer(lambda other_mode: X, lambda made: made.shape) is X
    assert reads.found


def test_modules_are_as_they_were() -> None:
    module = Plain()
    reads = mode_reads.ModeReads(module)
    with reads.watched():
        assert module.training
        module.train(False)
    assert reads.found and not module.training
    assert "training" not in vars(nn.Module) and "training" in vars(module)
