"""Both sides are compared at other sizes by default: each argument alone, then pairs, within a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from flax import nnx
from torch import Tensor, nn

import port
from port.errors import UsageError
from port.judging.compared import Compared
from port.translation import Translation, writing
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.neighbouring_sizes import compare_neighbouring_sizes
from port.translation.other_settings import OtherSizes
from port.translation.verify import Proof

from .constructed_anew import taken
from .kept_argument_nets import Expanded


class Three(nn.Module):
    def __init__(self, dim: int = 8, out: int = 3, wide: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


SAME, DIFFERENT = (Proof((Compared("outputs in evaluation", error, 1e-9, "0", 1),)) for error in (0.0, 1.0))


@dataclass
class Judge:
    """Stands in for both sides: its verdict on a size is that of a function."""

    says: Callable[[ConfiguredModel], Proof] = lambda _: SAME
    original: nn.Module = field(default_factory=Three)
    seen: list[dict[str, Any]] = field(default_factory=list)

    def proof_around(self, model: ConfiguredModel) -> Proof:
        self.seen.append(model.named)
        return self.says(model)


def around(judge: Judge, limit: float = 60.0, **options: Any) -> OtherSizes:
    model = ConfiguredModel(Three, {"dim": 8, "out": 3, "wide": False}, (((torch.zeros(2, 8),), {}),))
    return compare_neighbouring_sizes(judge, model, list(model.settings()), limit=limit, **options)  # type: ignore[arg-type]


def test_each_is_moved_by_itself_and_then_two_at_a_time() -> None:
    one, other = Judge(), Judge()
    assert around(one) == around(other)
    assert one.seen == other.seen  # the same ones every time
    assert one.seen[:3] == [{"dim": 9}, {"out": 4}, {"wide": True}]
    assert [len(settings) for settings in one.seen] == [1, 1, 1, 2, 2, 2]
    assert len({frozenset(settings) for settings in one.seen[3:]}) == 3
    assert around(one).sentence == "the same at 6 other sizes"


def test_what_two_show_together_is_seen() -> None:
    """The planted fault: each argument alone is right."""
    found = around(Judge(lambda model: DIFFERENT if {"dim", "wide"} <= model.named.keys() else SAME))
    assert found.wrong is not None
    assert found.wrong.moved == (("dim",), ("wide",))
    assert "the written module computes something else: outputs in evaluation: 1.0e+00 > 1e-09" in found.wrong.sentence
    assert len(found.proved) >= 3


def test_what_cannot_be_translated_or_judged_there_is_told() -> None:
    def says(model: ConfiguredModel) -> Proof:
        if "dim" in model.named:
            raise UsageError("no pair")
        return Proof((), unjudged="no numbers") if "out" in model.named else SAME

    found = around(Judge(says))
    assert found.wrong is None and found.proved == ({"wide": True},)
    assert "not judged with dim = 9: it cannot be translated there: no pair" in found.lines
    assert "not judged with out = 4: no numbers" in found.lines


def test_what_takes_too_long_is_left_and_counted() -> None:
    judge, told = Judge(), list[str]()
    found = around(judge, limit=120.0, expected=121.0, tell=told.append)
    assert judge.seen == [] and found.left == 6
    assert found.sentence == "all 6 other sizes were skipped: they would exceed the limit of 120 s"
    assert told == ["comparing at other sizes takes up to 2 minutes"]


def test_what_is_left_after_some_is_counted() -> None:
    found = OtherSizes(({"dim": 9},), left=2, limit=60.0)
    assert found.lines == (
        "the same at 1 other size: dim = 9; 2 more were skipped: they would exceed the limit of 60 s",
    )


@pytest.mark.parametrize("limit", [-1.0, float("nan"), True, "60"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="for other sizes is a number of seconds, 0 for none"):
        port.translate(Three(), torch.zeros(2, 8), sizes_limit=limit)


class Patched(nn.Module):
    """Its table is made for one size of its patches."""

    def __init__(self, patch: int = 4, dim: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, dim, patch, patch)
        self.positions = nn.Parameter(torch.zeros(dim, 16))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(2) + self.positions


class Wider(nn.Module):
    """Another layer where both arguments are others."""

    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        hidden = dim // heads + (1 if dim != 8 and heads != 2 else 0)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


class Scaled(nn.Module):
    """Another number where both arguments are others."""

    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, 3), nn.Linear(3, heads)
        self.scale = heads * 3.0 if dim == 8 or heads == 2 else heads * 5.0

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.down(torch.tanh(self.up(x)))


def translated(cls: type[nn.Module], *shape: int, **options: Any) -> Translation:
    translation = port.translate(cls(), torch.randn(*shape), construct=cls, **{"sizes_limit": 600.0, **options})
    assert translation.proof is not None and translation.proof.agrees
    return translation


@pytest.mark.sweep
def test_what_the_original_refuses_stays_and_is_named_in_its_words() -> None:
    made = translated(Patched, 2, 3, 16, 16)
    assert made.proof is not None
    assert made.proof.sizes.startswith(
        "the same at 1 other size; patch stays 4: the original accepts none of the other values that were tried, with "
        "inputs like these: at 5 it raises RuntimeError: The size of tensor a (9) must match the size of tensor b (16)"
    )
    assert made.proof.sizes in str(made.proof)
    assert taken(made) == {"patch": 4, "dim": 6}
    with pytest.raises(ValueError, match="Patched is written for patch=4 alone"):
        made.code.Patched(patch=8, rngs=None)


@pytest.mark.sweep
@pytest.mark.usefixtures("from_what_they_make")
@pytest.mark.parametrize("cls", [Wider, Scaled])
def test_an_argument_that_does_not_hold_with_another_is_written_as_its_value(
    cls: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changing each alone does not show it: without other sizes both are kept."""
    assert taken(translated(cls, 3, 8, sizes_limit=0.0)) == {"dim": 8, "heads": 2}
    moved = Mock(wraps=writing.select_arguments)
    monkeypatch.setattr(writing, "select_arguments", moved)
    made = translated(cls, 3, 8)
    assert taken(made) == {"dim": 8}
    moved.assert_called_once()  # the second writing uses the first one's selection
    assert "with dim = 7, heads = 4 the written module computes something else" in made.settings.fixed["heads"]
    assert made.settings.sizes.proved == ({"dim": 9},)


@pytest.mark.sweep
def test_where_the_constructors_own_source_is_kept_both_hold() -> None:
    made = translated(Scaled, 3, 8)
    assert taken(made) == {"dim": 8, "heads": 2}
    assert [len(settings) for settings in made.settings.sizes.proved] == [1, 1, 2]


@pytest.mark.sweep
def test_a_constructor_is_kept_and_refuses_what_makes_another_model() -> None:
    """With as many groups as heads the original returns early, which no example shows."""
    made = port.translate(Expanded(), torch.randn(2, 7, 24), construct=Expanded, sizes_limit=100)
    assert made.proof is not None and made.proof.agrees
    assert "with groups = 6 the written module computes something else" in made.settings.fixed["groups"]
    assert "self.times, self.head_width = heads // groups, width // heads" in made.source
    with pytest.raises(ValueError, match="Expanded is written for groups=3 alone"):
        made.code.Expanded(groups=6, rngs=nnx.Rngs(0))
