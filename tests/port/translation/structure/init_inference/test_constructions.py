"""Observed constructions: which function drew a tensor with which arguments, through views and in-place operators."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from port.translation.frontend.meta_device import constructed_on_meta
from port.translation.structure.init_inference.constructions import WITHOUT_NUMBERS, numbered, starts_of
from port.translation.structure.init_inference.stories import (
    Draw,
    Elementwise,
    Fixed,
    Number,
    Story,
    Unsaid,
    alike,
    without_events,
)


class Holding(nn.Module):
    """A module of one parameter, ``w``."""

    def __init__(self, made: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.w = nn.Parameter(made())


def story_of(made: Callable[[], torch.Tensor]) -> Story | None:
    story = starts_of(lambda: Holding(made))["w"].only
    return None if story is None else without_events(story)


def filled(initializer: Callable[..., object], *shape: int, **options: object) -> Callable[[], torch.Tensor]:
    def made() -> torch.Tensor:
        tensor = torch.empty(shape)
        initializer(tensor, **options)
        return tensor

    return made


def by_erfinv() -> torch.Tensor:
    """As timm draws a truncated normal distribution."""
    low, high = math.erf(-2 / math.sqrt(2)), math.erf(1 / math.sqrt(2))
    w = torch.empty(6, 4).uniform_(low, high)
    return w.erfinv_().mul_(0.02 * math.sqrt(2)).add_(0.5).clamp_(min=0.5 - 0.04, max=0.5 + 0.02)


def in_part_zero() -> torch.Tensor:
    w = torch.randn(5, 3) * 0.3
    w[1].zero_()
    return w


def written_by_halves() -> torch.Tensor:
    w = torch.zeros(4, 6)
    w[:2].normal_(0, 0.5)
    w.t()[:, 2:].copy_(torch.randn(6, 2) / 2)
    return w


U, N = (lambda a, b: Draw("uniform", (a, b), 0)), (lambda m, s: Draw("normal", (m, s), 0))

KNOWN: dict[str, tuple[Callable[[], torch.Tensor], Story]] = {
    "randn": (lambda: torch.randn(3, 4), N(0.0, 1.0)),
    "rand, stretched": (lambda: (torch.rand(3, 4) - 0.5) * 4, U(-2.0, 2.0)),
    "one minus": (lambda: 1 - torch.rand(3, 4), U(0.0, 1.0)),
    "by a tensor of one number": (lambda: torch.randn(3, 4) * torch.tensor(0.5) + torch.ones(4), N(1.0, 0.5)),
    "normal_": (filled(nn.init.normal_, 3, 4, mean=1.0, std=0.02), N(1.0, 0.02)),
    "xavier_uniform_": (filled(nn.init.xavier_uniform_, 2, 4), U(-1.0, 1.0)),
    "kaiming_normal_": (filled(nn.init.kaiming_normal_, 5, 8), N(0.0, 0.5)),
    "trunc_normal_": (filled(nn.init.trunc_normal_, 6, 4, a=-1.0), Draw("truncated", (0.0, 1.0, -1.0, 2.0), 0)),
    "trunc_normal_ of bounds far away": (filled(nn.init.trunc_normal_, 6, 4, std=0.02), N(0.0, 0.02)),
    "ones": (lambda: torch.ones(3) * 1.5, Number(1.5)),
    "zeros, drawn before": (lambda: torch.randn(3, 4).mul_(0.0), Number(0.0)),
    "arange": (lambda: torch.log(torch.arange(1.0, 5.0)), Fixed()),
    "numbers": (lambda: torch.tensor([1.0, 2.0, 4.0]), Fixed()),
    "numbers, as it was written before": (lambda: torch.FloatTensor([1, 2, 4]), Fixed()),
    "numpy": (lambda: torch.from_numpy(np.sin(np.arange(30.0))), Fixed()),
    "eye_": (filled(nn.init.eye_, 3, 3), Fixed()),
    "a mask": (lambda: torch.zeros(3, 4).masked_fill(torch.ones(3, 4).tril() == 0, -100.0), Fixed()),
    "rows by an index": (lambda: torch.zeros(3, 4).index_fill_(0, torch.tensor([1]), 2.0), Fixed()),
    "halves": (written_by_halves, N(0.0, 0.5)),
    "through .data": (lambda: nn.Linear(3, 4).weight.data.normal_(0, 0.1), N(0.0, 0.1)),
}


@pytest.mark.parametrize("made", KNOWN.values(), ids=KNOWN)
def test_what_drew_it_is_known(made: tuple[Callable[[], torch.Tensor], Story]) -> None:
    start = starts_of(lambda: Holding(made[0]))["w"]
    if made[1] == Fixed():
        assert start.is_fixed
    else:
        assert start.only is not None and alike(start.only, made[1]), start.stories


def test_a_truncated_normal_distribution_by_the_inverse_of_erf() -> None:
    story = story_of(by_erfinv)
    assert isinstance(story, Draw) and story.kind == "truncated"
    assert story.numbers == pytest.approx((0.5, 0.02, 0.46, 0.52))


def test_a_function_of_what_is_drawn() -> None:
    story = story_of(lambda: torch.log(torch.rand(4) + 0.1))
    assert story == Elementwise("log", (U(0.1, 1.1),))


def test_an_orthogonal_matrix_is_one_drawn_whole() -> None:
    for shape in ((5, 3), (3, 5), (4, 2, 3)):
        story = story_of(filled(nn.init.orthogonal_, *shape, gain=2.0))
        assert isinstance(story, Draw) and (story.kind, story.numbers) == ("orthogonal", (2.0, math.prod(shape)))


UNKNOWN = {
    "torch.empty": (lambda: torch.empty(3, 4), "torch.empty leaves it unset"),
    "torch.Tensor": (lambda: torch.Tensor(3, 4), "torch.empty leaves it unset"),
    "data-dependent": (lambda: torch.randn(8, 3) / torch.randn(8, 3).std(), "torch's std makes it"),
    "by its own spread": (lambda: (lambda w: w * w.std().item())(torch.randn(8, 3)), "in another way in each"),
    "numpy's numbers": (lambda: torch.from_numpy(np.random.randn(3, 9)), "something else than torch"),  # noqa: NPY002
    "repeated": (lambda: torch.randn(1, 4).expand(3, 4).clone(), "repeats what was drawn once"),
    "added to its transpose": (lambda: (lambda w: w + w.t())(torch.randn(4, 4)), "several draws"),
    "two of them": (lambda: torch.randn(4, 4) + torch.rand(4, 4), "several draws"),
}


@pytest.mark.parametrize("made", UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_said_is_not_guessed(made: tuple[Callable[[], torch.Tensor], str]) -> None:
    story = story_of(made[0])
    assert isinstance(story, Unsaid)
    assert made[1] in story.why


def test_what_is_read_from_a_file_is_not_taken(tmp_path: Path) -> None:
    torch.save(nn.Linear(6, 7).state_dict(), tmp_path / "w.pth")

    def construct() -> nn.Module:
        layer = nn.Linear(6, 7)
        layer.load_state_dict(torch.load(tmp_path / "w.pth"))
        return layer

    for start in starts_of(construct).values():
        assert start.only == Unsaid("it is read from a file (w.pth)")


def test_a_checkpoint_in_memory_is_not_taken() -> None:
    before = nn.Linear(6, 7)

    def construct() -> nn.Module:
        layer = nn.Linear(6, 7)
        layer.load_state_dict(before.state_dict())
        return layer

    assert isinstance(starts_of(construct)["weight"].only, Unsaid)


@pytest.mark.parametrize("most", [3, 9, 10**6])
@pytest.mark.parametrize("shape", [(4, 5), (6,), ()])
def test_labels_are_numbered_as_if_sorted(most: int, shape: tuple[int, ...]) -> None:
    labels = np.random.default_rng(0).integers(0, most, shape)
    found, places = numbered(np.asarray(labels))
    expected, expected_places = np.unique(labels, return_inverse=True)
    assert np.array_equal(found, expected)
    assert np.array_equal(places, expected_places.reshape(shape))


def test_labels_of_no_elements() -> None:
    found, places = numbered(np.zeros((0, 3), np.int32))
    assert found.shape == (0,) and places.shape == (0, 3)


def test_parts_are_told_apart() -> None:
    start = starts_of(lambda: Holding(in_part_zero))["w"]
    zero = next(number for number, story in enumerate(start.stories) if story == Number(0.0))
    assert (start.labels == zero).all(1).tolist() == [False, True, False, False, False]
    assert without_events(start.stories[1 - zero]) == N(0.0, 0.3)


def test_copies_know_of_what() -> None:
    def construct() -> nn.Module:
        first = nn.Linear(3, 4)
        tied = nn.Linear(3, 4)
        tied.weight = first.weight
        return nn.ModuleList([first, copy.deepcopy(first), tied])

    starts = starts_of(construct)
    assert starts["1.weight"].same == ("0.weight",)
    assert starts["0.weight"].same == starts["2.weight"].same == ()


def test_the_users_generators_go_on_as_they_were() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    starts_of(lambda: nn.Linear(3, 4))
    assert torch.equal(torch.rand(1), expected)


def half_of_zeros(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.fill_(2.5)
        tensor[1:].zero_()


def sines(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(torch.arange(12.0).reshape(4, 3).sin())


@pytest.mark.parametrize("initializer", [nn.init.ones_, nn.init.zeros_, half_of_zeros, sines])
def test_numbers_of_a_parameter_on_the_meta_device_are_those_that_it_has_with_memory(
    initializer: Callable[..., object],
) -> None:
    def construct() -> nn.Module:
        return Holding(filled(initializer, 4, 3))

    on_meta, usual = (starts_of(made)["w"] for made in (constructed_on_meta(construct), construct))
    assert constructed_on_meta(construct)().w.is_meta  # type: ignore[union-attr]
    assert on_meta.is_fixed and on_meta.stories == usual.stories
    np.testing.assert_array_equal(on_meta.values, usual.values)


def overwritten(tensor: torch.Tensor) -> None:
    sines(tensor)
    with torch.no_grad():
        tensor[1].copy_(torch.arange(3.0))


@pytest.mark.parametrize("initializer", [nn.init.eye_, overwritten])
def test_numbers_that_nobody_has_are_not_guessed(initializer: Callable[..., object]) -> None:
    start = starts_of(constructed_on_meta(lambda: Holding(filled(initializer, 4, 3))))["w"]
    assert start.stories == (Unsaid(WITHOUT_NUMBERS),)
