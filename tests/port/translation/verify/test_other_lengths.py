"""The proof at other lengths finds hard-coded numbers, and reports the lengths that it tried."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import port
from port.translation.result import Translation
from port.translation.verify import prove

from ..lengths_tried import silently_wrong


class Positions(nn.Module):
    """A language model: tokens and the places where they stand, as many as there are."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(9, 6), nn.Embedding(12, 6)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        return self.token(tokens) + self.position(places)


class WholePool(nn.Module):
    """A pooling whose window is a Python number: the length of what it pools."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        return F.avg_pool2d(x, (int(x.shape[2]), int(x.shape[3]))).flatten(1)


class Scaled(nn.Module):
    """A mean by hand, over a length that a Python number holds."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1)[:, -1] / x.shape[1]


MODELS = {
    "positions": (Positions(), torch.randint(0, 9, (2, 7)), "jnp.arange(tokens.shape[1])", "jnp.arange(7)"),
    "pooling": (WholePool(), torch.randn(2, 3, 8, 10), "x.shape[1:3]", "(4, 5)"),
    "mean": (Scaled(), torch.randn(2, 5, 3), "/ x.shape[1]", "/ 5"),
}


@pytest.fixture(scope="module")
def positions() -> Translation:
    module, tokens, *_ = MODELS["positions"]
    return port.translate(module, tokens)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sweep
def test_a_number_in_the_place_of_a_length_is_found(name: str, positions: Translation) -> None:
    module, x, length, number = MODELS[name]
    right = positions if name == "positions" else port.translate(module, x, check=False)
    example = right.lengths.of((x,), {})
    right = replace(right, lengths=replace(right.lengths, tried=({key: size + 2 for key, size in example.items()},)))
    assert prove(module, right, (x,), {}).agrees
    assert length in right.source
    wrong = replace(right, source=right.source.replace(length, number))
    proof = prove(module, wrong, (x,), {})
    assert not proof.agrees
    # At the example's own lengths nothing is seen of it.
    assert all(row.agrees for row in proof.rows if " at " not in row.what)
    # The tests of whole models look at it in their own way.
    assert silently_wrong(module, wrong, (x,), {})
    assert not silently_wrong(module, right, (x,), {})


def test_the_proof_says_what_it_tried(positions: Translation) -> None:
    assert positions.lengths.conditions == ("t <= 12",)
    assert 'F.expect(tokens, "n t; t <= 12")' in positions.source
    assert positions.lengths.tried == ({"n": 3, "t": 6}, {"n": 1, "t": 1})
    assert "compared at the example's lengths; n = 3, t = 6; n = 1, t = 1" in str(positions.proof)
    with pytest.raises(ValueError, match="written for t <= 12, and t = 13"):
        positions.run(torch.zeros(2, 13, dtype=torch.int64))


def test_static_fixes_all_and_says_so() -> None:
    module, x, *_ = MODELS["mean"]
    translation = port.translate(module, x, static=True)
    assert translation.proof is not None and translation.proof.agrees
    assert 'F.expect(x, "2 5 3")' in translation.source and not translation.lengths.names
    assert "the example's lengths only, which are fixed" in str(translation.proof)
    with pytest.raises(ValueError, match="axis 1 has length 1, and this was written for 5"):
        translation.run(torch.randn(2, 1, 3))


class Windows(nn.Module):
    """torch convolves no more than there is; JAX gives nothing of it, whose sum is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 4)

    def forward(self, x: Tensor, picks: Tensor) -> Tensor:
        return self.conv(x).sum(2)[:, picks]


@pytest.mark.sweep
def test_what_the_original_alone_refuses_is_refused() -> None:
    module, given = Windows(), (torch.randn(2, 2, 9), torch.tensor([1, 0, 2]))
    translation = port.translate(module, given)
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert translation.lengths.conditions == ("l >= 4",)
    assert not silently_wrong(module, translation, given, {})
    unchecked = replace(translation, source=translation.source.replace("; l >= 4", ""))
    assert silently_wrong(module, unchecked, given, {})


class CropsInTraining(nn.Module):
    """In training it takes no more than the first eight, and in evaluation all there are."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[1] > 8:
            x = x[:, :8]
        return self.linear(x).sum(1)


class DropsLongOnes(CropsInTraining):
    """A dropout of long ones; the mask is drawn alike on both sides."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return F.dropout(y, 0.5, self.training).sum(1) if x.shape[1] > 8 else y.sum(1)


class StepsInTraining(CropsInTraining):
    """In training every other one of many, by a slice that a step makes."""

    def forward(self, x: Tensor) -> Tensor:
        many = self.training and int(x.shape[1]) // 9 > 0
        return self.linear(x[:, :: 2 if many else 1]).sum(1)


@pytest.mark.parametrize("kind", [CropsInTraining, DropsLongOnes, StepsInTraining])
@pytest.mark.sweep
def test_a_branch_that_only_training_takes_keeps_its_condition(kind: type[CropsInTraining]) -> None:
    module, x = kind(), torch.randn(2, 5, 4)
    translation = port.translate(module, x)
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    for length in (4, 9, 17):
        longer = torch.randn(2, length, 4)
        module.train()
        translation.module.train()
        try:
            given = translation.run(longer)
        except ValueError as error:
            assert length != 4 and "written for" in str(error)
        else:
            assert length == 4, "silently wrong in training"
            torch.testing.assert_close(given, module(longer))


class LooksBack(CropsInTraining):
    """Of more than 22 the last 24: a condition that 23 and 24 do not need."""

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x[:, -24:] if x.shape[1] > 22 else x).sum(1)


class LooksFarBack(CropsInTraining):
    """A condition that 59 and 60 do not need, far above the example."""

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x[:, -60:] if x.shape[1] > 58 else x).sum(1)


class FillsUp(CropsInTraining):
    """A condition that twelve do not need, and fewer do."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] < 13:
            x = F.pad(x, (0, 0, 0, max(0, 12 - x.shape[1])), value=1.0)
        return self.linear(x).sum(1)


@pytest.mark.parametrize(
    ("kind", "condition", "length"),
    [(LooksBack, "t <= 22", 25), (LooksFarBack, "t <= 58", 61), (FillsUp, "t >= 13", 8)],
)
@pytest.mark.sweep
def test_what_one_length_does_not_need_another_does(kind: type[CropsInTraining], condition: str, length: int) -> None:
    module, x = kind(), torch.randn(2, 20, 4)
    translation = port.translate(module, x)
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    with pytest.raises(ValueError, match=f"this was written for {condition}, and t = {length}"):
        translation.run(torch.randn(2, length, 4))


class MeanInTraining(CropsInTraining):
    """In training a mean is added, but not of one alone."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[1] > 1:
            x = x + x.mean(1, keepdim=True)
        return self.linear(x).sum(1)


@pytest.mark.sweep
def test_a_length_of_one_is_tried_in_training() -> None:
    translation = port.translate(MeanInTraining(), torch.randn(2, 5, 4))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert translation.lengths.conditions == ("t >= 2",)


class DetachesLongOnes(CropsInTraining):
    """Outputs are the same at any length; the gradient of long ones is another."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return (y.detach() * y if x.shape[1] > 8 else y * y).sum(1)


class CountsLongOnes(CropsInTraining):
    """Only a buffer tells long ones from short ones."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[1] > 8:
            self.seen.mul_(2)
        return self.linear(x).sum(1)


class MeasuresLongOnes(CropsInTraining):
    """The mean is a constant for the gradient where there are many, by a number that no guard names."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        mean = y.mean(1, keepdim=True)
        return (y * (mean.detach() if int(x.shape[1]) // 9 > 0 else mean)).sum(1)


@pytest.mark.parametrize("kind", [DetachesLongOnes, CountsLongOnes, MeasuresLongOnes])
@pytest.mark.sweep
def test_a_branch_that_changes_a_gradient_or_a_buffer_alone_keeps_its_condition(kind: type[CropsInTraining]) -> None:
    module, x = kind(), torch.randn(2, 5, 4)
    translation = port.translate(module, x)
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert any("gradients in training at n = " in row.what for row in translation.proof.rows)
    with pytest.raises(ValueError, match=r"written for t <= (5|8)"):
        translation.run(torch.randn(2, 17, 4))
