"""The constructor that is written takes the original's arguments, and makes the same model at other values of them."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from flax import nnx
from torch import Tensor, nn

import port
from port.translation import Translation, argument_validation, source_difference

from .constructed_anew import apart, classes, taken
from .constructor_nets import (
    Config,
    Derived,
    Drawn,
    DrawnConfig,
    Flagged,
    FromNamespace,
    Gpt,
    Masked,
    MlpConfig,
    Nested,
    PatchConfig,
    Positions,
    Rotary,
    RotaryConfig,
    Stages,
    Tempered,
    TemperedBuffer,
    TemperedTokens,
    Tuples,
    TwoScaled,
    Vit,
    WeightNormConfig,
)
from .odd_constructors import AtLeast, Branching, Looked, MadeUp, Once, ReadsShared, Stepped, Windows

NEAR = 1e-9


def _floats(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape)


def _tokens() -> Tensor:
    return torch.randint(0, 11, (2, 5))


@dataclass(frozen=True)
class Case:
    """A model, and another one of its class.

    Attributes:
        cls: the class.
        given: what the one is constructed with.
        inputs: makes what it takes.
        others: what the other one is constructed with.
        other_inputs: makes what that takes.
        takes: what the written constructors take, by the classes' names; ``...`` for what has no default.
    """

    cls: type[nn.Module]
    given: dict[str, Any]
    inputs: Callable[[], Tensor]
    others: dict[str, Any]
    other_inputs: Callable[[], Tensor]
    takes: dict[str, dict[str, Any]] = field(default_factory=dict)


_VIT = {"heads": 2, "mlp_ratio": 2.0, "tokens": 5, "p": 0.0}
_VIT_BLOCK = {"dim": ..., "heads": ..., "mlp_ratio": 2.0}
_CONFIG = {"dim": ..., "heads": ..., "n_layer": ..., "mlp": ..., "block": 8, "dropout": 0.0}
_CONFIGURED = {"config": ...}
SMALL = {
    "namespace": Case(
        FromNamespace,
        {"args": Namespace(dim=4, hidden=6, scale=0.5, unread=3)},
        _floats(2, 4),
        {"args": Namespace(dim=5, hidden=3, scale=2.0, unread=4)},
        _floats(2, 5),
        {"FromNamespace": {"args": ...}, "Namespace": {"dim": ..., "hidden": ..., "scale": ...}},
    ),
    "base class": Case(
        Derived,
        {"dim": 6},
        _floats(2, 6),
        {"dim": 5, "classes": 3},
        _floats(2, 5),
        {"Derived": {"dim": ..., "classes": 4}},
    ),
    "two instances": Case(
        TwoScaled,
        {"dim": 4},
        _floats(2, 4),
        {"dim": 5, "scale": 0.25},
        _floats(2, 5),
        {"TwoScaled": {"dim": ..., "scale": 0.5}, "Scaled": {"dim": ..., "scale": ...}},
    ),
    "tuple": Case(Tuples, {}, _floats(2, 3), {"hidden": (4, 7)}, _floats(2, 3), {"Tuples": {"hidden": (5, 6)}}),
    "nested": Case(
        Nested,
        {"config": Config(4, 2, 1, MlpConfig(6))},
        _floats(2, 4),
        {"config": Config(5, 2, 1, MlpConfig(3, 3.0))},
        _floats(2, 5),
        {"Config": {"dim": ..., "mlp": ...}, "MlpConfig": {"width": ..., "ratio": 2.0}},
    ),
    "at least": Case(AtLeast, {"dim": 4}, _floats(2, 4), {"dim": 24}, _floats(2, 24), {"AtLeast": {"dim": ...}}),
    "shared": Case(ReadsShared, {"dim": 4}, _floats(2, 4), {"dim": 7}, _floats(2, 7), {"ReadsShared": {"dim": ...}}),
    "layer within a layer": Case(
        Masked,
        {"config": WeightNormConfig(4)},
        _floats(2, 7, 4),
        {"config": WeightNormConfig(6, 5)},
        _floats(2, 7, 6),
        {"Masked": {"config": ...}, "WeightNormConfig": {"dim": ..., "kernel": 3}},
    ),
    "of a module within": Case(
        Positions,
        {"config": PatchConfig(6, 12)},
        _floats(2, 3, 12, 12),
        {"config": PatchConfig(8, 6, 3)},
        _floats(2, 3, 6, 6),
        {"Positions": {"config": ...}, "PatchConfig": {"dim": ..., "size": ..., "patch": 4}},
    ),
    "table": Case(
        Rotary,
        {"config": RotaryConfig(6, {"theta": 100.0, "kind": "plain"})},
        _floats(2, 4),
        {"config": RotaryConfig(8, {"theta": 50.0, "kind": "plain"})},
        _floats(2, 4),
        {"Rotary": {"config": ...}, "RotaryConfig": {"dim": ..., "rope": ...}},
    ),
    "buffer of one number": Case(
        Tempered,
        {"dim": 4},  # its root is whole
        _floats(2, 4),
        {"dim": 7},
        _floats(2, 7),
        {"Tempered": {"dim": ...}},
    ),
    "assigned buffers of one number": Case(
        TemperedBuffer,
        {"dim": 4},
        _floats(2, 4),
        {"dim": 7, "scale": 0.25},
        _floats(2, 7),
        {"TemperedBuffer": {"dim": ..., "scale": 0.5}},
    ),
    "buffer of one number in a layer of torch's": Case(
        TemperedTokens,
        {"dim": 4},
        _tokens,
        {"dim": 7},
        _tokens,
        {"TemperedTokens": {"dim": ...}, "TemperedEmbedding": {"dim": ..., "scale": ...}},
    ),
    "flags": Case(
        Flagged,
        {"dim": 4},
        _floats(2, 4),
        {"dim": 7},
        _floats(2, 7),
        {"Flagged": {"dim": ..., "normed": True, "bias": True}},
    ),
}
LARGE = {
    "names": Case(
        Vit,
        {"dim": 8},
        _floats(2, 5, 8),
        {"dim": 12, "depth": 3, "heads": 3, "mlp_ratio": 1.5, "tokens": 4},
        _floats(3, 4, 12),
        {"Vit": {"dim": ..., "depth": 2, **_VIT}, "VitBlock": _VIT_BLOCK},
    ),
    "configuration": Case(
        Gpt,
        {"config": Config(8, 2, 3, MlpConfig(6))},
        _tokens,
        {"config": Config(12, 3, 2, MlpConfig(5, 3.0), 9)},
        _tokens,
        {
            "Config": _CONFIG,
            "MlpConfig": {"width": ..., "ratio": 2.0},
            **dict.fromkeys(("Gpt", "GptBlock", "Attention"), _CONFIGURED),
        },
    ),
    "sequential": Case(
        Stages,
        {"width": 4},
        _floats(2, 3, 6, 7),
        {"width": 6, "classes": 5},
        _floats(2, 3, 5, 6),
        {
            "Stages": {"width": ..., "depths": (2, 3), "classes": 4},
            "ConvNorm": {"inside": ..., "outside": ..., "kernel": 3},
        },
    ),
}


TOLD = ["layer within a layer", "of a module within", "table"]
WATCHED = "without construct=… nobody sees what lengths and tables are worked out from: they are written as they are"


def translated(case: Case, *, construct: bool, **options: Any) -> Translation:
    def made() -> nn.Module:
        return case.cls(**copy.deepcopy(case.given))

    return port.translate(made(), case.inputs(), construct=made if construct else None, **options)


def as_written(translation: Translation, value: Any) -> Any:
    """A configuration as an instance of the written class with its name, with the fields of that class."""
    cls = vars(translation.code).get(type(value).__name__)
    if cls is None:
        return value
    return cls(**{name: as_written(translation, getattr(value, name)) for name in taken(translation, cls.__name__)})


def check_elsewhere(case: Case, translation: Translation) -> None:
    """The written class with the other arguments equals the other original."""
    given = {name: as_written(translation, value) for name, value in case.others.items()}
    assert apart(translation, case.cls(**copy.deepcopy(case.others)), given, case.other_inputs()) < NEAR


def check(case: Case, *, construct: bool) -> None:
    torch.manual_seed(0)
    translation = translated(case, construct=construct)
    assert translation.proof is not None and translation.proof.agrees
    assert {name: taken(translation, name) for name in case.takes} == case.takes
    check_elsewhere(case, translation)


@pytest.mark.parametrize("construct", [True, False])
@pytest.mark.parametrize("name", [name for name in SMALL if name not in TOLD])
@pytest.mark.sweep
def test_it_is_the_original_at_other_arguments(name: str, construct: bool) -> None:
    check(SMALL[name], construct=construct)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "construct", [True, pytest.param(False, marks=pytest.mark.xfail(raises=KeyError, strict=True, reason=WATCHED))]
)
@pytest.mark.parametrize("name", TOLD)
def test_what_is_seen_while_it_is_constructed_has_to_be_told(name: str, construct: bool) -> None:
    check(SMALL[name], construct=construct)


@pytest.mark.sweep
@pytest.mark.parametrize("construct", [True, False])
@pytest.mark.parametrize("name", LARGE)
def test_larger_ones(name: str, construct: bool) -> None:
    check(LARGE[name], construct=construct)


@pytest.mark.parametrize("name", ["base class", "names"])
@pytest.mark.sweep
def test_another_is_written_as_the_same_classes(name: str) -> None:
    case = {**SMALL, **LARGE}[name]
    other = Case(case.cls, case.others, case.other_inputs, case.given, case.inputs)
    one, two = (classes(translated(each, construct=True)).partition("F.expect") for each in (case, other))
    assert one[0] == two[0]
    assert one[2].partition("\n")[2] == two[2].partition("\n")[2]


@pytest.mark.sweep
def test_weights_are_drawn_with_the_numbers_of_a_configuration() -> None:
    """A model initialises the weights of its parts, whose constructors take the same configuration."""
    takes = {"Drawn": {"config": ...}, "DrawnConfig": {"dim": ..., "spread": 0.5}}
    given, others = {"config": DrawnConfig(6)}, {"config": DrawnConfig(5, 2.0)}
    case = Case(Drawn, given, _floats(2, 6), others, _floats(2, 5), takes)
    check(case, construct=True)
    source = translated(case, construct=True).source
    assert source.count("kernel_init=nnx.initializers.normal(config.spread * config.dim**-0.5)") == 2


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "start", "value"),
    [
        ("buffer of one number", "jnp.array(self.root, param_dtype)", lambda made: made.Tempered(7, rngs=nnx.Rngs(0))),
        (
            "assigned buffers of one number",
            "jnp.array(scale * dim, param_dtype)",
            lambda made: made.TemperedBuffer(7, 7**-0.5, rngs=nnx.Rngs(0)),
        ),
        (
            "buffer of one number in a layer of torch's",
            "jnp.array(scale, param_dtype)",
            lambda made: made.TemperedTokens(7, rngs=nnx.Rngs(0)).tokens,
        ),
    ],
)
def test_a_buffer_starts_with_the_number_of_an_argument(name: str, start: str, value: Callable[[Any], Any]) -> None:
    made = translated(SMALL[name], construct=True)
    assert f"self.scale = Buffer({start})" in made.source
    assert float(value(made.code).scale[...]) == pytest.approx(7**0.5)


@pytest.mark.sweep
def test_it_takes_inputs_of_other_lengths() -> None:
    case = SMALL["two instances"]
    translation = translated(case, construct=True)
    written = vars(translation.code)[translation.name](**case.others, rngs=nnx.Rngs(0))
    written(*translation.to_flax(case.other_inputs()))


@pytest.mark.parametrize("cls", [Branching, Stepped, Looked])
@pytest.mark.sweep
def test_what_a_constructor_decides(cls: type[nn.Module]) -> None:
    """Its source is kept, with all of its decisions."""
    other = {"dim": 5 if cls is Looked else 24}
    case = Case(cls, {"dim": 4}, _floats(2, 4), other, _floats(2, other["dim"]), {cls.__name__: {"dim": ...}})
    check(case, construct=True)


WINDOWS = Case(Windows, {}, _floats(3, 8), {"dim": 8, "heads": 4}, _floats(3, 8))


@pytest.mark.sweep
def test_instances_in_which_arguments_make_up_for_each_other_keep_their_constructor() -> None:
    translation = translated(WINDOWS, construct=True)
    assert list(taken(translation, "Window")) == ["dim", "heads"]
    check_elsewhere(WINDOWS, translation)


@pytest.mark.sweep
@pytest.mark.usefixtures("from_what_they_make")
def test_instances_in_which_arguments_make_up_for_each_other_bear_out_none() -> None:
    """In all of them ``dim // heads`` is 4: only a part on its own shows what happens when one of them moves."""
    translation = translated(WINDOWS, construct=True)
    assert translation.proof is not None and translation.proof.agrees
    assert taken(translation) == {}
    line = "Window takes dim, heads only in its instances' combinations: changed alone, none is the original's"
    assert line in translation.settings.lines


LOOKED = Case(Looked, {"dim": 4}, _floats(2, 4), {"dim": 5}, _floats(2, 5))
MADE_UP = Case(MadeUp, {"dim": 8, "heads": 2}, _floats(3, 8), {"dim": 8, "heads": 4}, _floats(3, 8))


@pytest.mark.sweep
def test_an_item_of_what_the_constructor_keeps_is_read() -> None:
    translation = translated(MADE_UP, construct=True)
    assert translation.proof is not None and translation.proof.agrees
    assert list(taken(translation)) == ["dim", "heads"]
    assert "self.lengths[0]" in translation.source
    check_elsewhere(MADE_UP, translation)


@pytest.mark.usefixtures("from_what_they_make")
@pytest.mark.parametrize("case", [LOOKED, MADE_UP], ids=["looked", "made up"])
@pytest.mark.parametrize("construct", [True, False])
@pytest.mark.sweep
def test_what_cannot_be_said_is_no_argument(case: Case, construct: bool) -> None:
    translation = translated(case, construct=construct)
    assert translation.proof is not None and translation.proof.agrees
    assert taken(translation) == {}


@pytest.mark.usefixtures("from_what_they_make")
@pytest.mark.parametrize("case", [LOOKED, MADE_UP], ids=["looked", "made up"])
@pytest.mark.sweep
def test_a_wrong_argument_is_seen(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_difference, "source_of", lambda program: "")
    translation = translated(case, construct=True)
    assert translation.proof is not None and translation.proof.agrees
    assert list(taken(translation)) == list(case.given)
    with pytest.raises((AssertionError, TypeError)):
        check_elsewhere(case, translation)


@pytest.mark.sweep
@pytest.mark.usefixtures("from_what_they_make")
def test_settings_that_only_move_together_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_validation, "_groups", lambda settings: [settings])
    monkeypatch.setattr(argument_validation, "_are_apart", lambda groups: True)
    assert list(taken(translated(MADE_UP, construct=True))) == ["dim", "heads"]


def test_one_that_is_constructed_once() -> None:
    Once.made = 0
    translation = port.translate(Once(3), torch.randn(2, 3))
    assert translation.proof is not None and translation.proof.agrees
    assert taken(translation) == {}


def _changed(layer: str) -> Callable[[], nn.Module]:
    def factory() -> nn.Module:
        made = TwoScaled(4)
        getattr(made, layer).scale = 7.0
        return made

    return factory


@pytest.mark.sweep
@pytest.mark.parametrize(("layer", "found"), [("one", {"dim": "4", "scale": "7.0"}), ("other", {})])
def test_one_that_is_changed_after_its_construction(layer: str, found: dict[str, str]) -> None:
    """Without ``construct``, arguments are inferred where some make the same model."""
    factory = _changed(layer)
    for construct, arguments in ((factory, {}), (None, found)):
        translation = port.translate(factory(), torch.randn(2, 4), construct=construct)
        assert translation.proof is not None and translation.proof.agrees
        assert translation.arguments == arguments
        assert set(taken(translation)) == set(arguments)
