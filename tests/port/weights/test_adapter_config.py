"""An adapter's config: ranks and scalings by module, as PEFT finds them; what is another function is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from port.errors import BrokenWeights, UsageError
from port.weights.adapter_config import AdapterConfig, adapter_config_from, read_adapter_config
from tests.port.weights.some_adapter import CONFIG


def config(**told: Any) -> AdapterConfig:
    return adapter_config_from(json.dumps(CONFIG | told), "its config")


def test_the_scaling_is_alpha_by_rank_each_by_its_pattern():
    told = config(r=8, lora_alpha=16, rank_pattern={r"1\.up": 4, "up": 2}, alpha_pattern={"^blocks.0.up": 3, "up": 5})
    assert (told.rank_of("blocks.1.up"), told.scaling_of("blocks.1.up")) == (4, 5 / 4)
    assert (told.rank_of("blocks.2.up"), told.scaling_of("blocks.2.up")) == (2, 5 / 2)
    assert (told.rank_of("blocks.2.down"), told.scaling_of("blocks.2.down")) == (8, 2.0)
    # The pattern meets the whole end of a path: "up" is not that of "blocks.2.sup".
    assert told.rank_of("blocks.2.sup") == 8
    assert config(r=9, lora_alpha=6, rank_pattern={}, alpha_pattern={}, use_rslora=True).scaling_of("x") == 2.0


def test_targets_are_ends_of_paths_or_one_expression():
    told = config(target_modules=["up", "blocks.0.down"], exclude_modules=["1.up"])
    paths = ("up", "blocks.0.up", "blocks.1.up", "blocks.0.sup", "blocks.0.down", "x.blocks.0.down", "blocks.1.down")
    assert [told.is_target(path) for path in paths] == [True, True, False, False, True, True, False]
    assert config(target_modules=r".*\.(up|down)").is_target("blocks.0.up")
    assert not config(target_modules=r"blocks").is_target("blocks.0.up")
    assert not config(target_modules=["head", "up"], modules_to_save=["head"]).is_target("head")
    assert config(target_modules="all-linear").is_target("blocks.0.up") is None
    assert config(layers_to_transform=[1]).is_target("blocks.0.up") is None


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"peft_type": "IA3"}, "only LoRA adapters are read, but its peft_type is IA3"),
        ({"peft_type": None}, "peft_type is None"),
        ({"use_dora": True, "lora_bias": True}, r"use_dora \(DoRA, which.*; lora_bias \(a bias of lora_B\)"),
        ({"target_parameters": ["experts.gate"]}, "parameters that are not a module's weight"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights = 'pissa_niter_4' changes the model's own weights"),
    ],
)
def test_what_is_another_function_is_refused(told, message):
    with pytest.raises(UsageError, match=message):
        config(**told)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"r": 0}, "a rank must be a whole number of at least 1, got r = 0"),
        ({"r": True}, "got r = True"),
        ({"r": "8"}, "got r = '8'"),
        ({"rank_pattern": {"up": 1.5}}, "got up = 1.5"),
        ({"rank_pattern": {"(": 4}}, "cannot be read as a LoRA adapter's config"),
        ({"rank_pattern": [4]}, "rank_pattern must be a table"),
        ({"lora_alpha": None}, "lora_alpha is a number, got None"),
        ({"lora_alpha": float("nan")}, "lora_alpha is a number, got nan"),
        ({"target_modules": [1]}, "target_modules must be a list of names"),
        ({"use_rslora": "yes"}, "use_rslora must be true or false, got 'yes'"),
        ({"modules_to_save": "head"}, "modules_to_save must be a list"),
    ],
)
def test_what_cannot_be_is_refused(told, message):
    with pytest.raises(BrokenWeights, match=message):
        config(**told)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(BrokenWeights, match=r"no adapter's folder: it has no adapter_config\.json"):
        read_adapter_config(tmp_path)
    for content in (b"{", b"[]", b"\xff", b"{}", b"[" * 100_000):
        (tmp_path / "adapter_config.json").write_bytes(content)
        with pytest.raises((BrokenWeights, UsageError), match=r"adapter_config\.json"):
            read_adapter_config(tmp_path)
    without = {name: value for name, value in CONFIG.items() if name != "r"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(without))
    with pytest.raises(BrokenWeights, match="'r' is missing"):
        read_adapter_config(tmp_path)
