"""Inputs that are drawn are those that a model takes; what takes none of them is told why, and what to do."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from port.errors import UsageError
from port.translation.hub.example_calls import example_calls
from port.translation.hub.hub_model import HubModel, hub_model
from port.translation.hub.small_config import small_config

transformers = pytest.importorskip("transformers", reason="an extra of the tests'")


class Strange(transformers.BertModel):  # type: ignore[misc]
    """Takes something that no configuration says."""

    def forward(self, input_ids: Any, key: Any) -> Any:  # type: ignore[override]
        return key


def test_a_model_that_takes_something_else_is_told_so() -> None:
    config = hub_model("transformers:BertModel", {"vocab_size": 60}).config
    with pytest.raises(UsageError, match=r"Strange takes none of the inputs .*input_ids.*--inputs"):
        small_config(HubModel(Strange, config))


class Listing(transformers.ViTModel):  # type: ignore[misc]
    """Says more than one main input."""

    main_input_name: ClassVar[list[str]] = ["pixel_values", "task_inputs"]


def test_a_class_may_say_several_main_inputs() -> None:
    config = hub_model("transformers:ViTModel", {"image_size": 32, "hidden_size": 24, "num_attention_heads": 2}).config
    ((_, call),) = example_calls(HubModel(Listing, config), config)
    assert list(call) == ["pixel_values"]


def test_a_field_that_is_not_set_is_named() -> None:
    model = hub_model("transformers:EsmModel", {})
    with pytest.raises(UsageError, match=r"takes input_ids, .*vocab_size for input_ids.*Set vocab_size, by --kwargs"):
        small_config(model)
    model = hub_model("transformers:EsmModel", {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32})
    assert small_config(model).calls[0][1]["input_ids"].max() < 32


def test_what_no_configuration_says_the_size_of() -> None:
    model = hub_model("transformers:PatchTSTModel", {})
    with pytest.raises(UsageError, match=r"PatchTSTModel takes past_values, and PatchTSTConfig says.*Give it some, by"):
        small_config(model)


class Halved(transformers.BertModel):  # type: ignore[misc]
    """Cannot be built."""

    def __init__(self, config: Any) -> None:
        raise ValueError("\nheads do not divide:\n3 of 5")


def test_a_model_that_cannot_be_built_says_why() -> None:
    config = hub_model("transformers:BertModel", {"vocab_size": 60}).config
    with pytest.raises(UsageError, match=r"^Halved cannot be built as BertConfig says: ValueError: heads .*3 of 5\."):
        small_config(HubModel(Halved, config))
