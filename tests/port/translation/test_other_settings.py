"""Translations at other settings of the original's constructor: proved, built, and refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

import port
from port.errors import UsageError, WeightsMismatch
from port.translation import Translation
from port.translation.argument_validation import ValidatedArguments
from port.translation.other_settings import CONSTRUCTED_OTHERWISE
from port.translation.structure.own_arguments import OwnArguments
from port.weights.constructor_arguments import said_arguments


@dataclass
class Config:
    width: int
    heads: int = 2
    depth: int = 2
    norm: bool = True


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        assert config.width % config.heads == 0, "width must be a multiple of heads"
        self.heads = config.heads
        self.scale = (config.width // config.heads) ** -0.5
        self.mix = nn.Linear(config.width, 2 * config.width)
        self.norm = nn.LayerNorm(config.width) if config.norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        N, L, C = x.shape
        q, k = self.mix(self.norm(x)).reshape(N, L, 2, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        return x + (weights @ q).transpose(1, 2).reshape(N, L, C)


class Encoder(nn.Module):
    def __init__(self, config: Config, classes: int = 5) -> None:
        super().__init__()
        self.embed = nn.Linear(3, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.depth)])
        self.head = nn.Linear(config.width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def encoder(classes: int = 5, **settings: int) -> Encoder:
    return Encoder(Config(**{"width": 6, **settings}), classes)  # type: ignore[arg-type]


@cache
def translated() -> Translation:
    return port.translate(encoder(), torch.randn(2, 7, 3), construct=encoder)


@pytest.mark.sweep
def test_the_source_takes_what_the_original_takes() -> None:
    source = translated().source
    for line in (
        "    width: int",
        "    heads: int = 2",
        "self.scale = (config.width // config.heads) ** -0.5",
        "self.mix = nnx.Linear(",
        "nnx.List([Block(config, **options) for _ in range(config.depth)])",
        "for block in self.blocks:",
        "N, L, C = x.shape",
        "C // self.heads), (2, 0, 3, 1, 4))",
        "options = saved_arguments(path, Encoder, options, config=Config(width=6))",
    ):
        assert line in source, line


@pytest.mark.sweep
def test_what_was_tried_and_what_stays_is_told() -> None:
    settings = translated().settings
    assert {name for tried in settings.tried for name in tried} == {
        "config.width",
        "config.heads",
        "config.depth",
        "classes",
    }
    assert set(settings.fixed) == set()  # `norm` is said with nothing: a field that nobody reads


@pytest.mark.sweep
@pytest.mark.parametrize("settings", [{"width": 10, "depth": 1}, {"heads": 3, "classes": 2}, {}])
def test_it_is_built_at_other_settings_with_the_weights_of_a_module(settings: dict[str, int]) -> None:
    other, x = encoder(**settings), torch.randn(3, 4, 3)
    built = translated().build(arguments=settings, weights=other)
    np.testing.assert_allclose(built(jnp.asarray(x.numpy())), other(x).detach().numpy(), rtol=0, atol=1e-6)


@pytest.mark.sweep
def test_a_weights_file_says_the_size_that_load_constructs(tmp_path: Path) -> None:
    other, x, path = encoder(width=10, depth=3, classes=2), torch.randn(3, 4, 3), tmp_path / "other.safetensors"
    translated().save(path, arguments={"width": 10, "depth": 3, "classes": 2}, weights=other)
    for given in (path, converted(path, tmp_path / "converted.safetensors")):
        built = translated().code.load(given)
        np.testing.assert_allclose(built(jnp.asarray(x.numpy())), other(x).detach().numpy(), rtol=0, atol=1e-6)
        assert len(built.blocks) == 3
    translated().save(path, overwrite=True)
    assert len(translated().code.load(path).blocks) == 2
    # The planted fault: nothing says that it is another size.
    save_file(load_file(tmp_path / "converted.safetensors"), path)
    with pytest.raises(WeightsMismatch, match=r"blocks.0.mix.bias has shape \(20,\) in it, but \(12,\) in the"):
        translated().code.load(path)


def converted(path: Path, out: Path) -> Path:
    """The same file as ``port convert`` writes it: under each variable's kind, with the constructor's arguments."""
    own = translated().code
    arguments = said_arguments(own.Encoder, {"config": own.Config(width=10, depth=3), "classes": 2})
    save_file({f"params.{name}": array for name, array in load_file(path).items()}, out, arguments.metadata())
    return out


@pytest.mark.sweep
def test_what_no_file_can_say_is_refused(tmp_path: Path) -> None:
    made = translated()

    class Otherwise:
        def at(self, *_: object) -> Translation:
            return replace(made, arguments={**made.arguments, "classes": "abs"})

    with pytest.raises(UsageError, match="says the numbers and texts of a constructor's arguments, not classes = abs"):
        replace(made, elsewhere=Otherwise()).save(tmp_path / "a", arguments={"classes": 3}, weights=encoder())
    with pytest.raises(UsageError, match="holds a module's weights: pass the module"):
        made.save(tmp_path / "a", arguments={"classes": 3})
    assert not list(tmp_path.iterdir())


@pytest.mark.sweep
def test_a_new_one_starts_with_numbers_of_its_own() -> None:
    built = translated().build(arguments={"width": 8}, filled=False)
    assert built.embed.kernel.shape == (3, 8)
    assert np.abs(built.embed.kernel[...]).max() > 0


@pytest.mark.sweep
def test_both_sides_are_compared_there() -> None:
    made = port.translate(encoder(), torch.randn(2, 7, 3), construct=encoder, at={"config.width": 4, "depth": 3})
    assert made.proof is not None and made.proof.agrees
    rows = [row.what for row in made.proof.rows]
    assert "gradients in training with config.width = 4, config.depth = 3" in rows


@pytest.mark.sweep
def test_a_model_on_the_meta_device_is_proved_where_it_fits() -> None:
    with torch.device("meta"):
        large = encoder(width=4096, depth=3, heads=8)
    made = port.translate(
        large,
        torch.zeros(2, 7, 3, device="meta"),
        construct=lambda: encoder(width=4096, depth=3, heads=8),
        at={"width": 16, "depth": 2},
    )
    assert made.proof is not None and made.proof.agrees
    assert {row.what.partition(" with ")[2] for row in made.proof.rows} == {"config.width = 16, config.depth = 2"}
    assert any("meta device" in remark for remark in made.proof.remarks)


@pytest.mark.sweep
def test_a_fault_at_another_size_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that does not follow its setting is right at one size only: the proof at another size must see it."""
    elsewhere, writing = "port.translation.at_other_settings", "port.translation.argument_selection"
    monkeypatch.setattr(f"{writing}.validated_arguments", lambda *_, **__: ValidatedArguments())
    monkeypatch.setattr(f"{elsewhere}.difference", lambda *_: "")
    monkeypatch.setattr(OwnArguments, "in_body", lambda _, __, body, ___: (body, {}))
    made = port.translate(encoder(), torch.randn(2, 7, 3), construct=encoder, at={"width": 8})
    assert made.proof is not None and not made.proof.agrees


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"width": 7}, "the original refuses width = 7: AssertionError: width must be a multiple of heads"),
        (
            {"depht": 3},
            "has no argument 'depht'; it has config.width, config.heads, config.depth, classes",
        ),
    ],
)
@pytest.mark.sweep
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("(", r"\(")):
        translated().build(arguments=settings)


@pytest.mark.sweep
def test_a_model_that_cannot_be_constructed_anew_says_so() -> None:
    changed = encoder()
    changed.head = nn.Linear(6, 2)
    made = port.translate(changed, torch.randn(2, 7, 3))
    assert made.proof is not None and made.proof.agrees
    assert "class Block(nnx.Module)" in made.source and "config" not in made.source
    with pytest.raises(UsageError, match="pass construct=lambda"):
        made.build(arguments={"width": 8})


class Talking(nn.Module):
    """Prints something when it is constructed."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        print("constructing")
        self.inner = nn.Linear(3, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@pytest.mark.sweep
def test_constructions_are_silent_and_leave_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    module = Talking()
    capsys.readouterr()
    made = port.translate(module, torch.randn(2, 3), construct=Talking)
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    assert made.build(arguments={"width": 6}, filled=False).inner.kernel.shape == (3, 6)
    assert torch.equal(torch.rand(2), expected)
    assert capsys.readouterr().out == ""


class Exact(nn.Module):
    """Accepts only Python's own numbers."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        if type(width) is not int:
            raise TypeError("an int")
        self.inner = nn.Linear(3, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_a_constructor_that_asks_more_of_a_number_says_so() -> None:
    made = port.translate(Exact(), torch.randn(2, 3), construct=Exact)
    assert made.proof is not None and made.proof.agrees
    assert made.settings.lines == (CONSTRUCTED_OTHERWISE,)


@pytest.mark.sweep
def test_what_is_proved_small_is_borne_out_small() -> None:
    """A large model is captured at no other size: its settings are moved from the size at which it is proved."""
    with torch.device("meta"):
        module = encoder(width=8, depth=12)
    made = port.translate(
        module,
        torch.empty(2, 4, 3, device="meta"),
        construct=lambda: encoder(width=8, depth=12),
        at={"config.depth": 2, "config.width": 12},
    )
    assert made.proof is not None and made.proof.agrees
    first, *others = made.settings.tried
    assert first == {"config.depth": 2, "config.width": 12}
    assert others and all(each["config.depth"] < 5 for each in others)
    assert "nnx.List([Block(config, **options) for _ in range(config.depth)])" in made.source
    assert "config.width, 2 * config.width," in made.source


@pytest.mark.sweep
def test_another_on_the_meta_device_is_constructed_on_shapes_alone() -> None:
    """It validates arguments like one that is run; the proof says that it was not run."""

    def large() -> Encoder:
        with torch.device("meta"):
            return encoder(width=4096, depth=3, heads=8)

    made = port.translate(encoder(), torch.randn(2, 7, 3), construct=encoder, at=large, static=True)
    assert made.proof is not None and made.proof.agrees
    assert all(" with " not in row.what for row in made.proof.rows)
    assert any("on shapes alone" in remark for remark in made.proof.remarks)
