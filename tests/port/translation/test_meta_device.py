"""A module on the meta device: source and mapping are those of the module with weights; it has no weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flax import nnx
from safetensors.torch import save_file
from torch import Tensor, nn

import port
from port.errors import NoPair, UsageError
from port.judging import Status
from port.mapping import save_mapping
from port.translation import Translation
from port.translation.folder import write_folder
from port.translation.frontend.meta_device import parameters_on_meta

from .nets import Small, image
from .zoo.gpt import GPT, VOCABULARY
from .zoo.llama import Llama

pytestmark = pytest.mark.filterwarnings("ignore")


class Rotated(nn.Module):
    """Has a table that no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, 8, 2) / 8), persistent=False)
        self.dense = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(x.shape[1], device=x.device), self.frequencies)
        x = x * torch.cat([angles.cos(), angles.sin()], -1)
        return self.dense(x)


EXAMPLES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "a table": (Rotated, lambda: torch.randn(3, 5, 8)),
    "convnet": (Small, image),
    "llama": (Llama, lambda: torch.randint(23, (3, 6))),
}
ALL = pytest.mark.parametrize(
    "name", [name if name == "a table" else pytest.param(name, marks=pytest.mark.sweep) for name in EXAMPLES]
)


def on_meta(name: str, **options: Any) -> Translation:
    build, draw = EXAMPLES[name]
    with torch.device("meta"):
        module = build()
    return port.translate(module, draw(), construct=build, **options)


def without_load(source: str) -> str:
    """The classes of a source, without the code that reads its weights file."""
    return source.partition("\n\n\ndef load(")[0].partition("\n\n\nclass ")[2]


@ALL
def test_it_is_written_as_with_numbers(name: str) -> None:
    build, draw = EXAMPLES[name]
    translation, usual = on_meta(name, check=False), port.translate(build(), draw(), construct=build, check=False)
    assert without_load(translation.source).rstrip() == without_load(usual.source).rstrip()
    assert translation.mapping == usual.mapping
    assert (translation.values, translation.proof) == ({}, None)
    assert "def load(" not in translation.source


@ALL
def test_it_takes_a_checkpoint_by_the_mapping(name: str, tmp_path: Path) -> None:
    build, draw = EXAMPLES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        original, x = build().eval(), draw()
    save_file({key: tensor.clone() for key, tensor in original.state_dict().items()}, tmp_path / "original.safetensors")
    translation = on_meta(name)
    save_mapping(translation.mapping, tmp_path / "mapping.toml")
    module = translation.code.__dict__[translation.name](rngs=nnx.Rngs(0))
    port.load(module, tmp_path / "original.safetensors", rename=tmp_path / "mapping.toml")
    module.eval()
    ours = translation.to_torch(module(*translation.to_flax(x)))
    theirs = original(x)
    one, other = (result[0] if isinstance(result, tuple) else result for result in (ours, theirs))
    assert np.allclose(one.numpy(), other.detach().numpy(), atol=1e-5)
    assert translation.proof.status is Status.CANNOT_JUDGE
    assert "no weights to run with" in translation.proof.unjudged


def test_no_weights_are_written(tmp_path: Path) -> None:
    files = write_folder(on_meta("a table"), tmp_path / "out", name="rotated", report="# report")
    assert [file.name for file in files] == ["report.md", "rotated.mapping.toml", "rotated.py"]


class Deciding(nn.Module):
    """Reads a value where it decides, or multiplies what does not fit."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 10), nn.Linear(width, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        if (y > 0).any():
            y = 2 * y
        z: Tensor = self.down(x) + y[:, :6]
        return z


def test_what_reads_a_value_is_told_where() -> None:
    with torch.device("meta"):
        module, wrong = Deciding(), Deciding(width=7)
    with pytest.raises(NoPair, match=r"test_meta_device\.py:\d+: `if \(y > 0\)\.any\(\):` is data-dependent"):
        port.translate(module, torch.randn(3, 6))
    with pytest.raises(UsageError, match="Deciding does not take the example inputs"):
        port.translate(wrong, torch.randn(3, 5))


class Packed(nn.Module):
    """Looks whether positions that it makes itself go on one by one, and says where it computes in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.dense = nn.Embedding(23, 8), nn.Linear(8, 6)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        positions = torch.arange(ids.shape[1], device=x.device)
        if not torch.compiler.is_compiling() and (positions.diff() != 1).any():
            x = x.flip(1)
        return self.dense(x * positions[:, None].float().cos().to(x.dtype))


def test_what_a_module_asks_of_its_own_numbers_is_answered() -> None:
    ids = torch.randint(23, (3, 6))
    with torch.device("meta"):
        module = Packed()
    translation, usual = port.translate(module, ids, check=False), port.translate(Packed(), ids, check=False)
    assert without_load(translation.source).rstrip() == without_load(usual.source).rstrip()
    assert (translation.mixed, usual.mixed) == (True, True)
    assert translation.lengths == usual.lengths


class PackedTo(Packed):
    """The same; how many classes it tells apart is said."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(6, classes)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(super().forward(ids))


@pytest.mark.sweep
def test_it_is_answered_at_other_settings_too() -> None:
    def construct() -> nn.Module:
        return PackedTo(5)

    with torch.device("meta"):
        module = construct()
    translation = port.translate(module, torch.randint(23, (3, 6)), construct=construct, at={"classes": 9})
    assert translation.proof is not None
    assert translation.proof.agrees, str(translation.proof)
    assert all("with classes = 9" in row.what for row in translation.proof.rows)


class Wider(Rotated):
    """Its constructor takes an argument whose value is unknown."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Linear(8, width)


def test_a_buffer_that_nobody_can_compute_is_refused() -> None:
    with torch.device("meta"):
        module = Wider(7)
    with pytest.raises(UsageError, match=r"no checkpoint holds its buffer frequencies .* construct=lambda"):
        port.translate(module, torch.randn(3, 5, 8))


@pytest.mark.sweep
def test_numbers_that_are_lost_there_are_refused() -> None:
    with torch.device("meta"):
        module = GPT()
    with pytest.raises(NoPair, match=r"gpt.py:\d+: the code makes a tensor of numbers on the model's device"):
        port.translate(module, torch.randint(VOCABULARY, (3, 7)))


def test_half_of_a_module_there_is_refused() -> None:
    module = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.Linear(4, 2))
    with pytest.raises(UsageError, match=r"in part on the meta device: 0.weight is there, 1.weight is not"):
        port.translate(module, torch.randn(2, 3))


def test_what_is_computed_has_numbers_where_parameters_have_none() -> None:
    with parameters_on_meta():
        made = Rotated()
    assert made.dense.weight.is_meta and made.dense.bias.is_meta
    assert torch.equal(made.frequencies, Rotated().frequencies)
