"""Errors of a capture: one message that says where, why and what to do, and nothing else on the terminal."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import port
from port.errors import NoPair, UsageError
from port.translation.frontend import diagnostics
from port.translation.frontend.diagnostics import both_modes, fixed_axes, refusal
from port.translation.frontend.export import traced
from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.trials import Trials

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The number of the first line of this file with a text."""
    return next(n for n, line in enumerate(HERE.read_text().splitlines(), 1) if line.strip() == text)


class Branch(nn.Module):
    """Its control flow depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if y.sum() > 0:
            return y
        return -y


class Failing(nn.Module):
    """Accepts only images."""

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return x.reshape(b, c, h * w)


class Policy(nn.Module):
    """Returns an object, whose tensors the caller reads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> torch.distributions.Normal:
        mean, log_scale = self.linear(x).chunk(2, dim=-1)
        return torch.distributions.Normal(mean, log_scale.exp())


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.policy = Policy()

    def forward(self, x: Tensor) -> Tensor:
        return self.policy(x).mean


class Weighed(nn.Module):
    """Its training makes a table with one number a sample, with numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * torch.from_numpy(np.full(len(x), 0.5)) if self.training else x * self.scale


def test_a_batch_that_training_fixes_is_fixed_in_both_modes() -> None:
    trials = Trials(Weighed(), (torch.randn(5),), {})
    free = free_lengths(trials)
    assert [length.axes for length in free] == [((0, 0),)]
    _, graphs = both_modes(trials, free=free)
    assert all(fixed_axes(graph) == {(0, 0)} for graph in graphs.values())


def test_an_object_that_the_root_gives() -> None:
    with pytest.raises(NoPair, match=r"^Policy returns or passes on a Normal, .*: return its tensors"):
        port.translate(Policy(), torch.randn(2, 3))


@pytest.mark.sweep
def test_an_object_that_a_part_gives() -> None:
    translation = port.translate(Agent(), torch.randn(2, 3))
    assert translation.proof.agrees, str(translation.proof)
    assert 'return self.policy(x)["loc"]' in translation.source


def test_a_branch_on_numbers(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    loggers = [logging.getLogger(name) for name in ("torch", "torch.export", "torch.fx")]
    levels = [logger.level for logger in loggers]
    with caplog.at_level(logging.WARNING), pytest.raises(NoPair) as error:
        port.translate(Branch(), torch.randn(2, 3))
    text = "if y.sum() > 0:"
    assert str(error.value).startswith(f"{HERE}:{line_of(text)}: `{text}` is data-dependent: ")
    assert "torch.where" in str(error.value)
    assert "\n" not in str(error.value)
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "")
    assert not caplog.records
    assert [logger.level for logger in loggers] == levels


def test_inputs_that_it_does_not_take() -> None:
    with pytest.raises(UsageError) as error:
        port.translate(Failing(), torch.randn(2, 3))
    text = "b, c, h, w = x.shape"
    assert str(error.value).startswith(f"Failing does not take the example inputs ({HERE}:{line_of(text)}): ")
    assert "not enough values" in str(error.value)


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((torch.ones(2, 3),) * 2, {}), ((), {"y": torch.ones(2, 3)})])
def test_too_few_and_too_many(args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
    with pytest.raises(UsageError, match="Branch does not take the example inputs"):
        port.translate(Branch(), args, kwargs)


@pytest.mark.parametrize(
    ("thing", "described"), [(Branch, "the class Branch"), (torch.ones(2), "Tensor"), (None, "NoneType")]
)
def test_what_is_no_module(thing: object, described: str) -> None:
    with pytest.raises(UsageError, match=f"a torch.nn.Module is translated, got {described}"):
        port.translate(thing, torch.ones(2))  # type: ignore[arg-type]


def test_other_errors_of_the_export_keep_their_first_line() -> None:
    assert str(refusal(RuntimeError("\n  no such thing\n  a page of insides"))) == (
        "torch.export cannot capture this: no such thing"
    )
    assert str(refusal(ValueError())).endswith("cannot capture this: ValueError")
    assert len(str(refusal(RuntimeError("x" * 5000)))) < 400
    where = refusal(RuntimeError('told late\n  File "/home/me/net.py", line 7, in forward\n'))
    assert str(where).startswith("/home/me/net.py:7: torch.export cannot capture this: told late")


class Windows(nn.Module):
    """Two windows: the whole length, and an eighth of it, which is the same for both neighbouring lengths."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x, x.shape[2]) + F.max_pool1d(x, x.shape[2] // 8).mean(-1, keepdim=True)


class WordsAndSound(nn.Module):
    """Two lengths of axes with equal names; torch.export fixes the second."""

    def forward(self, words: Tensor, sound: Tensor) -> Tensor:
        return words[:, :, None] + F.avg_pool1d(sound.transpose(1, 2), sound.shape[1]).transpose(1, 2)


def test_a_length_that_torch_fixes_is_followed_far_from_the_example() -> None:
    translation = port.translate(Windows(), torch.randn(2, 3, 36), check=False)
    assert "x.shape[1] // 8" in translation.source


@pytest.mark.sweep
def test_two_lengths_have_two_names() -> None:
    translation = port.translate(WordsAndSound(), (torch.randn(2, 7), torch.randn(2, 5, 4)), check=False)
    assert translation.lengths.shapes == (("n", "t"), ("n", "t2", "l"))


class PooledAfterSteps(nn.Module):
    """torch.export fixes two lengths, of which one alone can be left free all the same."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(x.shape[3] % 3 + 1):
            x = x * 2
        return F.avg_pool2d(x, x.shape[2:])


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What decides each capture that is made: the lengths of the inputs, those left free, mode and precision."""
    made: list[tuple[object, ...]] = []

    def noted(module: nn.Module, args: tuple[Tensor, ...], *rest: object, **options: object) -> object:
        shapes = tuple(tuple(tensor.shape) for tensor in args)
        made.append((shapes, tuple(options["free"]), options["training"], options["double"]))  # type: ignore[arg-type]
        return traced(module, args, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(diagnostics, "traced", noted)
    return made


@pytest.mark.parametrize(
    ("module", "x"),
    [
        pytest.param(PooledAfterSteps(), torch.randn(2, 3, 10, 7), id="several lengths"),
        pytest.param(Branch(), torch.randn(2, 3), id="what cannot be captured"),
    ],
)
def test_no_capture_is_made_twice(module: nn.Module, x: Tensor, traces: list[tuple[object, ...]]) -> None:
    trials = Trials(module, (x,), {}, kept_layers(module))
    with contextlib.suppress(NoPair):
        both_modes(trials, free=free_lengths(trials))
    assert len(traces) > 1
    assert len(set(traces)) == len(traces)
