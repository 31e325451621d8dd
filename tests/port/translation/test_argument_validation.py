"""An argument is kept only if the original at another value of it is written as the same source.

Here constructors are written from what they make; `test_kept_constructors` has those that keep their source.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation import Translation, argument_validation, requested_models
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.programs import runs_at

from .constructed_anew import taken

pytestmark = pytest.mark.usefixtures("from_what_they_make")


class Inside(nn.Module):
    """How wide it is inside, a table says; the other numbers are the arguments'."""

    def __init__(self, dim: int, out: int, scale: float = 3.0, p: float = 0.0) -> None:
        super().__init__()
        hidden = {4: 6}.get(dim, dim + 3)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, out)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.down(torch.tanh(self.up(x)))


class Looked(nn.Module):
    """Its one number is looked up."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, {4: 6}.get(dim, dim + 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class Stacked(nn.Module):
    """Has as many layers as it is told."""

    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Bounded(nn.Module):
    """Takes one number alone."""

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        if size != 3:
            raise ValueError("of size 3")
        self.fc = nn.Linear(dim, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class Switched(nn.Module):
    """A switch that is a number in the call, one that says what there is, and one that a layer takes."""

    def __init__(self, dim: int, wide: bool = False, bias: bool = True, affine: bool = True) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, 3)
        self.more = nn.Linear(3, 3) if wide else nn.Identity()
        self.out = nn.Linear(3, 3, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.more(self.fc(x)))


class Layer(nn.Module):
    """Of any size."""

    def __init__(self, dim: int, out: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(dim, out), nn.LayerNorm(out, eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.fc(x))


class Within(nn.Module):
    """Its layers are several instances of a class, of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Layer(4, 5), Layer(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.one(x))


class Gained(nn.Module):
    """Where it is multiplied by 1, that is not written."""

    mask: Tensor

    def __init__(self, dim: int, gain: float = 1.0) -> None:
        super().__init__()
        self.fc, self.gain = nn.Linear(dim, dim), gain
        self.register_buffer("mask", torch.tril(torch.ones(dim, dim)))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) @ self.mask * self.gain


class Grouped(nn.Module):
    """Heads share keys; where each has its own, nothing is repeated, and where all have one, it is said otherwise."""

    def __init__(self, dim: int, heads: int, groups: int) -> None:
        super().__init__()
        self.head_dim, self.repeats = dim // heads, heads // groups
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, groups * self.head_dim)

    def forward(self, x: Tensor) -> Tensor:
        n, t, dim = x.shape
        k = self.k(x).view(n, t, -1, self.head_dim)
        if k.shape[2] == 1:
            return self.q(x).unflatten(-1, (-1, self.head_dim)) * k
        if self.repeats > 1:
            k = k.repeat_interleave(self.repeats, 2)
        return self.q(x) * k.reshape(n, t, dim)


class Padded(nn.Module):
    """A table whose row of the padding starts at zero."""

    def __init__(self, words: int, dim: int, padding: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, dim, padding_idx=padding)
        nn.init.normal_(self.table.weight, std=0.02)
        with torch.no_grad():
            self.table.weight[padding].zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x)


class Doubled(nn.Module):
    """One number alone is another model, with another as well."""

    def __init__(self, dim: int, half: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, half), nn.Linear(half, dim)
        self.scale = {2: 5}.get(half, half)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.down(self.up(x))


def translated(module: nn.Module, *shape: int, **options: Any) -> Translation:
    translation = port.translate(module, torch.randn(*shape), **options)
    assert translation.proof is None or translation.proof.agrees
    return translation


@pytest.mark.sweep
def test_one_that_a_table_reads_is_written_as_its_value() -> None:
    translation = translated(Inside(4, 2), 2, 4)
    assert taken(translation) == {"out": ..., "scale": 3.0}
    assert translation.arguments == {"out": "2"}
    assert "nnx.Linear(4, 6," in translation.source
    assert "nnx.Linear(6, out," in translation.source


def test_without_a_check_nothing_is_borne_out() -> None:
    assert set(taken(translated(Inside(4, 2), 2, 4, check=False))) == set()


def test_one_that_takes_no_other_value_is_written_as_that() -> None:
    assert taken(translated(Bounded(4, 3), 2, 4)) == {"dim": ...}


@pytest.mark.sweep
def test_a_switch_that_changes_the_source_is_no_argument() -> None:
    assert taken(translated(Switched(4), 2, 4)) == {"dim": ...}


@pytest.mark.sweep
def test_instances_of_different_sizes_bear_out_their_arguments() -> None:
    translation = translated(Within(), 2, 4)
    assert taken(translation) == {}
    assert taken(translation, "Layer") == {"dim": ..., "out": ...}


@pytest.mark.sweep
def test_a_number_that_is_not_written_is_no_argument() -> None:
    assert taken(translated(Gained(4), 2, 4)) == {"dim": ...}
    assert taken(translated(Gained(4, 0.5), 2, 4)) == {"dim": ..., "gain": 1.0}


@pytest.mark.sweep
def test_one_that_does_not_move_by_itself_moves_with_one_that_it_divides() -> None:
    translation = translated(Grouped(16, 4, 2), 2, 3, 16, construct=lambda: Grouped(16, 4, 2))
    assert taken(translation) == {"dim": ..., "heads": ..., "groups": ...}
    assert {"heads": 8, "groups": 4} in translation.settings.tried


@pytest.mark.sweep
def test_a_row_that_starts_at_zero_is_the_one_of_the_padding() -> None:
    x = torch.tensor([[1, 2, 3]])
    translation = port.translate(Padded(9, 4, 0), x, construct=lambda: Padded(9, 4, 0))
    assert translation.proof is not None and translation.proof.agrees
    assert taken(translation) == {"words": ..., "dim": ..., "padding": ...}
    assert "(jnp.s_[padding], nnx.initializers.zeros)" in translation.source


@pytest.mark.sweep
def test_one_that_is_another_model_whatever_moves_with_it_stays() -> None:
    translation = translated(Doubled(4, 2), 2, 4, construct=lambda: Doubled(4, 2))
    assert taken(translation) == {"dim": ...}
    assert translation.settings.fixed["half"].startswith("at 4 the source differs")


def test_one_on_the_meta_device() -> None:
    with torch.device("meta"):
        module = Gained(4, 0.5)
    translation = port.translate(module, torch.empty(2, 4, device="meta"), construct=lambda: Gained(4, 0.5))
    assert taken(translation) == {"dim": ..., "gain": 1.0}


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The other sizes at which the original is captured: what it is constructed with, and its input's shape."""
    made: list[tuple[object, ...]] = []

    def noted(model: ConfiguredModel, *rest: Any, **options: Any) -> Any:
        ((x,), _), *_ = model.calls
        made.append((tuple(model.arguments.items()), tuple(x.shape)))
        return runs_at(model, *rest, **options)

    monkeypatch.setattr(requested_models, "runs_at", noted)
    return made


@pytest.mark.sweep
def test_one_that_moves_alone_as_a_group_is_captured_once(sizes: list[tuple[object, ...]]) -> None:
    translation = translated(Looked(4), 2, 4)
    assert translation.settings.fixed["dim"].startswith("at 8 the source differs")
    assert len(sizes) == len(set(sizes)) == 2


@pytest.mark.sweep
def test_the_size_that_somebody_asks_for_is_captured_once(sizes: list[tuple[object, ...]]) -> None:
    """Settings are moved from it, as it is the smaller one."""
    options: dict[str, Any] = {"construct": lambda: Stacked(4, 6), "at": [lambda: Stacked(4, 2)]}
    translation = translated(Stacked(4, 6), 2, 4, **options)
    assert taken(translation) == {"dim": ..., "depth": ...}
    assert {"depth": 2} in translation.settings.tried
    assert len(sizes) == len(set(sizes)) > 1


def _settings(count: int) -> list[tuple[str, ...]]:
    return [(f"setting{number}",) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 20])
def test_groups_tell_settings_apart(count: int) -> None:
    settings = _settings(count)
    groups = argument_validation._groups(settings)
    assert len(groups) == count.bit_length()
    assert {setting for group in groups for setting in group} == set(settings)
    assert argument_validation._are_apart([set(group) for group in groups])


def test_settings_that_always_move_together_are_not_apart() -> None:
    one, two, three = _settings(3)
    assert not argument_validation._are_apart([{one, two}, {three}])
    assert not argument_validation._are_apart([{one, two}, {three, one, two}])
    assert argument_validation._are_apart([{one, two}, {three, two}])
    assert argument_validation._are_apart([{one}])


def test_a_large_model_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_validation, "_MOST", 3)
    translation = translated(Gained(4, 0.5), 2, 4)
    assert taken(translation) == {}
    assert {"dim", "gain"} == set(translation.settings.fixed)
    assert all("the model is large" in why for why in translation.settings.fixed.values())
