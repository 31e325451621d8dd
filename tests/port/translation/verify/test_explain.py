"""A proof that differs names the layer and the cause, for faults planted in the source."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import port
from port.report.results import result_of_translation
from port.translation import Translation
from port.translation.verify import Proof, explain, prove

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, width)
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.conv(self.norm(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 2)
        self.bn = nn.BatchNorm2d(4)
        self.block = Block(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        return self.head(self.block(self.bn(self.stem(x))).mean((2, 3))) * scale


@cache
def translated() -> tuple[Net, Translation, tuple[Tensor], dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = Net()
    x, scale = torch.randn(4, 3, 6, 5, generator=generator), torch.randn(5, generator=generator)
    return net, port.translate(net, x, {"scale": scale}, check=False, static=True), (x,), {"scale": scale}


def proof_of(before: str, after: str) -> Proof:
    net, done, args, kwargs = translated()
    assert before in done.source, done.source
    return prove(net, replace(done, source=done.source.replace(before, after, 1)), args, kwargs)


FAULTS = {
    "tanh-gelu": ("approximate=False", "approximate=True", "block"),
    "epsilon": ("epsilon=1e-05", "epsilon=1e-03", "block.norm"),
    "momentum-reversed": ("BatchNorm(4, ", "BatchNorm(4, momentum=0.9, ", "bn"),
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.sweep
def test_the_layer_and_the_cause_are_named(kind: str) -> None:
    before, after, layer = FAULTS[kind]
    proof = proof_of(before, after)
    assert not proof.agrees
    assert [(cause.kind, cause.layer) for cause in proof.explanation.causes] == [(kind, layer)], str(proof)
    assert f"cause: {kind}" in str(proof)
    found = result_of_translation(replace(translated()[1], proof=proof), ())
    assert [cause["kind"] for cause in found["causes"]] == [kind]
    if kind != "momentum-reversed":  # what differs is a buffer after the step: no layer's output parts
        assert {parting.layer for parting in proof.explanation.partings} == {layer}
        assert found["first_divergence"]["layer"] == layer


def test_a_right_module_has_no_explanation() -> None:
    net, done, args, kwargs = translated()
    proof = prove(net, done, args, kwargs)
    assert proof.agrees, str(proof)
    assert not proof.explanation.lines


def test_what_the_check_cannot_run_is_said_without_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "check", lambda *_, **__: 1 / 0)
    proof = proof_of("approximate=False", "approximate=True")
    assert not proof.agrees and proof.rows and not proof.explanation.lines
