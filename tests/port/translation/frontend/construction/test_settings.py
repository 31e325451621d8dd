"""A model's settings are moved to other values that it accepts."""

from __future__ import annotations

from argparse import Namespace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.construction import constructed
from port.translation.frontend.construction.moved_settings import moved
from port.translation.frontend.construction.settings import ConfiguredModel, Setting, configured_model
from tests.port.translation.constructor_nets import Config, FromNamespace, Gpt, MlpConfig, Tuples, TwoScaled
from tests.port.translation.odd_constructors import MadeUp, ReadsShared


def model(module: nn.Module, *args: Tensor) -> ConfiguredModel:
    construction = constructed(module)
    assert construction is not None
    found = configured_model(construction, module, [(args, {})])
    assert found is not None
    return found


def after(module: nn.Module, settings: list[Setting], *args: Tensor) -> ConfiguredModel:
    return moved(model(module, *args), settings, module)


def test_settings_are_numbers_and_switches() -> None:
    config = Config(8, 2, 1, MlpConfig(6))
    assert model(Gpt(config), torch.zeros(1, 2, dtype=torch.int64)).settings() == {
        ("config", "dim"): 8,
        ("config", "heads"): 2,
        ("config", "n_layer"): 1,
        ("config", "mlp", "width"): 6,
        ("config", "mlp", "ratio"): 2.0,
        ("config", "block"): 8,
        ("config", "dropout"): 0.0,
    }
    assert model(Tuples(), torch.ones(2, 3)).settings() == {("hidden",): (5, 6)}


def test_one_is_moved_and_the_inputs_with_it() -> None:
    found = after(TwoScaled(4), [("dim",)], torch.ones(2, 4))
    assert found.moved == {("dim",): 5}
    assert found.calls[0][0][0].shape == (2, 5)
    assert found.arguments == {"dim": 5, "scale": 0.5}
    assert found.construct().one.fc.in_features == 5


def test_what_the_original_does_not_take_is_passed_over() -> None:
    found = after(MadeUp(8, 2), [("dim",), ("heads",)], torch.ones(3, 8))
    assert found.moved == {("dim",): 16, ("heads",): 4}
    assert found.calls[0][0][0].shape == (3, 16)
    assert after(MadeUp(7, 7), [("heads",)], torch.ones(3, 7)).moved == {}


def test_inputs_are_resized_only_where_they_have_to_be() -> None:
    found = after(Gpt(Config(8, 2, 1, MlpConfig(6))), [("config", "mlp", "width")], torch.ones(6, 6, dtype=torch.int64))
    assert found.moved == {("config", "mlp", "width"): 7}
    assert found.calls[0][0][0].shape == (6, 6)


def test_a_configurations_field_is_moved_in_a_copy() -> None:
    args, config = Namespace(dim=4, hidden=6, scale=0.5), Config(8, 2, 1, MlpConfig(6))
    found = after(FromNamespace(args), [("args", "hidden"), ("args", "scale")], torch.ones(2, 4))
    assert vars(found.arguments["args"]) == {"dim": 4, "hidden": 7, "scale": 0.25}
    assert vars(args) == {"dim": 4, "hidden": 6, "scale": 0.5}
    gpt = after(Gpt(config), [("config", "mlp", "ratio")], torch.ones(1, 2, dtype=torch.int64))
    assert gpt.arguments["config"].mlp == MlpConfig(6, 3.0)  # half of 2 is 1, which is not written
    assert config.mlp == MlpConfig(6, 2.0)


def test_a_tuple_is_moved_as_one() -> None:
    assert after(Tuples(), [("hidden",)], torch.ones(2, 3)).moved == {("hidden",): (6, 7)}


class Numbers(nn.Module):
    """Accepts any values."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return x


class Widths(nn.Module):
    """The first of its widths is its input's length."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.widths = widths
        self.layers = nn.Sequential(*(nn.Linear(one, other) for one, other in pairwise(widths)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def test_the_first_of_a_tuple_may_have_to_stay() -> None:
    assert after(Widths((3, 5, 4)), [("widths",)], torch.ones(2, 3)).moved == {("widths",): (3, 6, 5)}


@pytest.mark.parametrize(
    ("value", "other"),
    [(True, False), (False, True), (0, 1), (1, 2), (8, 9), (12, 24), (64, 128), (100, 50), (0.0, 0.25), (4.0, 2.0)],
)
def test_values_beside(value: Any, other: Any) -> None:
    found = after(Numbers(value), [("value",)], torch.ones(3)).settings()[("value",)]
    assert found == other
    assert type(found) is type(other)


@pytest.mark.parametrize("value", ["text", None, (), ("a", 2), {"a": "b"}, {1: 2}])
def test_other_things_are_no_settings(value: Any) -> None:
    assert model(Numbers(value), torch.ones(3)).settings() == {}


def test_a_model_that_its_class_does_not_make_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ReadsShared(4)
    construction = constructed(module)
    assert construction is not None
    assert configured_model(construction, module, [((), {})]) is not None
    monkeypatch.setitem(vars(__import__(ReadsShared.__module__, fromlist=["SHARED"]))["SHARED"], "width", 9)
    assert configured_model(construction, module, [((), {})]) is None


def test_the_generators_are_left_as_they_are() -> None:
    module, x = TwoScaled(4), torch.ones(2, 4)
    before = torch.get_rng_state()
    after(module, [("dim",)], x)
    assert torch.equal(torch.get_rng_state(), before)
    assert x.shape == (2, 4)


def test_on_the_meta_device() -> None:
    module = TwoScaled(4).to("meta")
    assert after(module, [("dim",)], torch.ones(2, 4, device="meta")).calls[0][0][0].shape == (2, 5)


def test_the_numbers_of_a_dict_are_moved_and_its_words_are_not() -> None:
    found = after(Numbers({"a": 2, "b": "c"}), [("value",)], torch.ones(3))
    assert found.moved == {("value",): {"a": 3, "b": "c"}}
