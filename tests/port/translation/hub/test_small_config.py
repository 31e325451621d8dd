"""The smallest configuration of a model, and inputs that it and the model itself take."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from port.errors import UsageError
from port.translation.hub.hub_model import hub_model
from port.translation.hub.small_config import small_config

pytest.importorskip("transformers", reason="an extra of the tests'")

FOUND: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, tuple[int, ...]]]] = {
    "BertModel": (
        {"vocab_size": 900},
        {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 96},
        {"input_ids": (2, 11)},
    ),
    # Two kinds of attention, of which every sixth is the other one.
    "Gemma3ForCausalLM": (
        {"vocab_size": 900},
        {"num_hidden_layers": 6, "hidden_size": 24, "num_key_value_heads": 2, "head_dim": 8},
        {"input_ids": (2, 11)},
    ),
    "DeepseekV3ForCausalLM": (
        {"vocab_size": 900},
        {"num_hidden_layers": 2, "first_k_dense_replace": 1, "n_routed_experts": 8, "qk_head_dim": 16},
        {"input_ids": (2, 11)},
    ),
    # A square would hide what is transposed.
    "GptOssForCausalLM": (
        {"vocab_size": 900},
        {"num_hidden_layers": 2, "hidden_size": 18, "intermediate_size": 27, "num_local_experts": 8},
        {"input_ids": (2, 11)},
    ),
    # Layers that share their weights are a loop; a width of 1 would be broadcast.
    "AlbertModel": (
        {"vocab_size": 900, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 1024},
        {"num_hidden_layers": 4, "hidden_size": 32, "embedding_size": 8, "intermediate_size": 64},
        {"input_ids": (2, 11)},
    ),
    # Of both kinds of states a product is taken.
    "SiglipModel": (
        {"text_config.vocab_size": 900, "vision_config.image_size": 32},
        {"text_config.hidden_size": 24, "text_config.projection_size": 24, "vision_config.hidden_size": 24},
        {"input_ids": (2, 11), "pixel_values": (2, 3, 32, 32)},
    ),
    "SwinModel": (
        {"image_size": 64, "window_size": 2, "drop_path_rate": 0.0},
        {"depths": (2, 2, 2, 2), "embed_dim": 24},
        {"pixel_values": (2, 3, 64, 64)},
    ),
    # Its stages have names, as many as layers.
    "Dinov2Model": (
        {"image_size": 28},
        {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 2},
        {"pixel_values": (2, 3, 28, 28)},
    ),
    # Kinds of layers are said as [[kinds, times], …].
    "GPTNeoForCausalLM": (
        {"vocab_size": 900},
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "attention_layers": ["global", "local"]},
        {"input_ids": (2, 11)},
    ),
    # A part of each head is turned by its position: at least two frequencies of it.
    "GPTJForCausalLM": (
        {"vocab_size": 900},
        {"n_layer": 2, "n_embd": 32, "n_head": 4, "rotary_dim": 4},
        {"input_ids": (2, 11)},
    ),
    # One head of keys; two of them.
    "GPTBigCodeForCausalLM": ({"vocab_size": 900}, {"n_layer": 2, "n_embd": 24, "n_head": 2}, {"input_ids": (2, 11)}),
    "Starcoder2ForCausalLM": (
        {"vocab_size": 900},
        {"hidden_size": 24, "num_attention_heads": 4},
        {"input_ids": (2, 11)},
    ),
    # Many more heads of queries than of keys.
    "Qwen3MoeForCausalLM": (
        {"vocab_size": 900},
        {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "moe_intermediate_size": 12},
        {"input_ids": (2, 11)},
    ),
    # An inner width that hardly anything divides.
    "LlamaForCausalLM": (
        {"vocab_size": 900, "intermediate_size": 1407},
        {"hidden_size": 32, "intermediate_size": 21, "num_attention_heads": 4, "num_key_value_heads": 4},
        {"input_ids": (2, 11)},
    ),
    "RemBertModel": (
        {"vocab_size": 900},
        {"hidden_size": 18, "input_embedding_size": 4, "output_embedding_size": 26},
        {"input_ids": (2, 11)},
    ),
    # It takes what certain layers make, by their numbers: the widths are small, the layers the model's.
    "DepthAnythingForDepthEstimation": (
        {"backbone_config.image_size": 56},
        {"backbone_config.hidden_size": 32, "reassemble_hidden_size": 32, "neck_hidden_sizes": (4, 8, 16, 32)},
        {"pixel_values": (2, 3, 56, 56)},
    ),
    "BertForMultipleChoice": ({"vocab_size": 900}, {"hidden_size": 24}, {"input_ids": (2, 3, 11)}),
    "VideoMAEModel": (
        {"image_size": 32, "num_frames": 4},
        {"hidden_size": 24},
        {"pixel_values": (2, 4, 3, 32, 32)},
    ),
    "Wav2Vec2Model": ({}, {"num_hidden_layers": 2, "num_attention_heads": 2}, {"input_values": (2, 3840)}),
    "CLIPModel": (
        {"vision_config.image_size": 64},
        {"text_config.num_hidden_layers": 2, "vision_config.hidden_size": 48, "projection_dim": 32},
        {"input_ids": (2, 11), "pixel_values": (2, 3, 64, 64)},
    ),
    "WhisperModel": (
        {"max_source_positions": 20},
        {"encoder_layers": 2, "decoder_layers": 2, "d_model": 24},
        {"input_features": (2, 80, 40), "decoder_input_ids": (2, 7)},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_smallest_that_its_own_divisibility_allows(name: str) -> None:
    fields, settings, shapes = FOUND[name]
    model = hub_model(f"transformers:{name}", fields)
    small = small_config(model)
    assert settings.items() <= dict(small.settings).items(), small.settings
    assert {key: tuple(value.shape) for key, value in small.calls[0][1].items()} == shapes
    # It is taken, and the model itself is as it was.
    with torch.no_grad():
        model.build(small.config)(**small.calls[-1][1])
    assert all(_value(model.config, path) != value for path, value in small.settings.items())


def _value(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, name)
    return config


def test_layers_with_numbers_of_their_own_are_as_many_as_the_models() -> None:
    """Rates that grow from layer to layer follow from how many there are."""
    sizes = {"depths": [2, 2, 4, 2], "image_size": 64, "window_size": 2, "drop_path_rate": 0.1}
    small = small_config(hub_model("transformers:SwinModel", sizes))
    assert "depths" not in small.settings and small.settings["embed_dim"] == 24
    small = small_config(hub_model("transformers:SwinModel", {**sizes, "drop_path_rate": 0.0}))
    assert small.settings["depths"] == [2, 2, 2, 2]


def test_text_is_masked_in_a_second_call() -> None:
    small = small_config(hub_model("transformers:BertModel", {"vocab_size": 900}))
    (_, first), (_, second) = small.calls
    assert second.keys() == {"input_ids", "attention_mask"} > first.keys()
    assert second["attention_mask"].sum(1).tolist() == [7, 11]


def test_each_text_of_several_is_masked() -> None:
    small = small_config(hub_model("transformers:BertForMultipleChoice", {"vocab_size": 900}))
    (_, first), (_, second) = small.calls
    assert second["attention_mask"].sum(-1).tolist() == [[7, 7, 7], [11, 11, 11]]
    texts = first["input_ids"][0]
    assert not torch.equal(texts[0], texts[1]) and not torch.equal(texts[1], texts[2])


def test_special_tokens_are_not_drawn() -> None:
    ((_, call), *_) = small_config(hub_model("transformers:OPTForCausalLM", {"vocab_size": 40})).calls
    assert call["input_ids"].min() > 2 and call["input_ids"].max() < 40


def test_inputs_that_are_given_decide_what_fits() -> None:
    model = hub_model("transformers:BertModel", {"vocab_size": 60})
    given = ((torch.ones(3, 5, dtype=torch.long),), {"inputs_embeds": None})
    assert small_config(model, [given]).calls == [given]
    with pytest.raises(UsageError, match=r"does not take the inputs that it is given: .*index out of range"):
        small_config(model, [((torch.full((3, 5), 60),), {})])
