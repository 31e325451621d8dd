"""A model of ``transformers`` is found by its folder or its class, and what is wrong is said in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from port.errors import UnknownChoice, UsageError
from port.translation.hub.hub_model import hub_model
from port.translation.hub.target import is_hub_target

pytest.importorskip("transformers", reason="an extra of the tests'")

SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def folder_with(folder: Path, **fields: object) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **SMALL, **fields}))
    return folder


def test_a_class_has_its_own_configuration() -> None:
    model = hub_model("transformers:BertModel", {"num_hidden_layers": 3})
    assert (model.name, model.config.num_hidden_layers, model.config.hidden_size) == ("BertModel", 3, 768)
    assert model.config.use_cache is False


def test_an_auto_class_takes_the_type_of_its_model() -> None:
    model = hub_model("transformers:AutoModelForCausalLM", {"model_type": "llama", **SMALL})
    assert (model.name, model.config.hidden_size) == ("LlamaForCausalLM", 32)


@pytest.mark.parametrize(
    ("architectures", "name"), [(["BertForMaskedLM"], "BertForMaskedLM"), (None, "BertModel"), (["Gone"], "BertModel")]
)
def test_a_folder_says_its_class(architectures: list[str] | None, name: str, tmp_path: Path) -> None:
    model = hub_model(f"transformers:{folder_with(tmp_path, architectures=architectures)}", {"hidden_size": 48})
    assert (model.name, model.config.hidden_size, model.folder) == (name, 48, tmp_path)


def test_fields_of_what_lies_within() -> None:
    model = hub_model("transformers:CLIPModel", {"text_config.hidden_size": 48})
    assert model.config.text_config.hidden_size == 48


def test_masks_that_numpy_draws_are_left_out_unless_somebody_asks_for_them() -> None:
    model = hub_model("transformers:Wav2Vec2Model", {})
    assert model.config.apply_spec_augment is False
    assert ["apply_spec_augment" in remark for remark in model.remarks] == [True]
    asked = hub_model("transformers:Wav2Vec2Model", {"apply_spec_augment": True})
    assert asked.config.apply_spec_augment is True and not asked.remarks
    # The switch alone is turned: how much it would mask stays.
    assert model.config.mask_time_prob == asked.config.mask_time_prob > 0
    # One without a switch masks nothing instead.
    model = hub_model("transformers:Data2VecAudioModel", {})
    assert (model.config.mask_time_prob, len(model.remarks)) == (0.0, 1)
    asked = hub_model("transformers:Data2VecAudioModel", {"mask_time_prob": 0.1})
    assert asked.config.mask_time_prob == 0.1 and not asked.remarks
    assert not hub_model("transformers:BertModel", {}).remarks


def test_a_model_without_layers_says_so() -> None:
    model = hub_model("transformers:BertModel", {"num_hidden_layers": 0})
    assert ["num_hidden_layers = 0 of BertConfig" in remark for remark in model.remarks] == [True]


def test_fields_that_follow_from_others_follow_from_those_that_are_given(tmp_path: Path) -> None:
    heads = {"num_attention_heads": 4, "hidden_size": 32}
    for model in (
        hub_model("transformers:PhiForCausalLM", heads),
        hub_model("transformers:AutoModelForCausalLM", {"model_type": "phi", **heads}),
        hub_model(f"transformers:{folder_with(tmp_path, model_type='phi', num_attention_heads=8)}", heads),
    ):
        assert (model.config.num_attention_heads, model.config.num_key_value_heads) == (4, 4)
        assert model.config.hidden_size == 32
        model.build()
    given = hub_model("transformers:PhiForCausalLM", {**heads, "num_key_value_heads": 2})
    assert given.config.num_key_value_heads == 2


def test_a_class_that_is_given_its_configuration_is_one_like_any_other() -> None:
    assert is_hub_target("transformers:BertModel", {"hidden_size": 48})
    assert not is_hub_target("transformers:BertModel", {"config": {"@transformers:BertConfig": {}}})
    assert not is_hub_target("torchvision.models:resnet18", {})


BAD = {
    "no class": ("transformers:BertModle", {}, UnknownChoice, "BertModel"),
    "no model": ("transformers:BertConfig", {}, UsageError, "no class of a model"),
    "an auto class alone": ("transformers:AutoModel", {}, UsageError, "model_type"),
    "an unknown type": ("transformers:AutoModel", {"model_type": "bertt"}, UsageError, "none that transformers knows"),
    "no class of the kind": (
        "transformers:AutoModelForCausalLM",
        {"model_type": "vit"},
        UsageError,
        "AutoModelForCausalLM has no class for ViTConfig",
    ),
    "an unknown field": ("transformers:BertModel", {"hidden_sze": 3}, UnknownChoice, "hidden_size"),
    "no class like it": ("transformers:NoSuchModel", {}, UnknownChoice, r"there are: (\w+, ){4}\w+ and \d+ more$"),
    "a value of another kind": (
        "transformers:BertModel",
        {"num_hidden_layers": "two"},
        UsageError,
        r"BertConfig does not take num_hidden_layers = 'two'.*Field 'num_hidden_layers' expected int, got str",
    ),
    "fields that do not fit together": (
        "transformers:LlamaForCausalLM",
        {"hidden_size": 32, "num_attention_heads": 5},
        UsageError,
        r"does not take its fields: .*\(32\) is not a multiple of the number of attention heads \(5\)",
    ),
    "fewer layers than none": (
        "transformers:CLIPModel",
        {"text_config.num_hidden_layers": -1},
        UsageError,
        "CLIPTextConfig has num_hidden_layers = -1; a number of layers is at least 0",
    ),
    "no folder": ("transformers:./nowhere", {}, UsageError, "has no config.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target, fields, kind, said = BAD[name]
    with pytest.raises(kind, match=said):
        hub_model(target, fields)


def test_a_class_that_needs_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers
    from transformers.utils import DummyObject

    placeholder = DummyObject("SpeechModel", (), {"_backends": ["no_such_package"]})
    monkeypatch.setattr(
        "transformers.utils.import_utils.BACKENDS_MAPPING",
        {"no_such_package": (lambda: False, "{0} requires\nthe package no_such_package.")},
    )
    monkeypatch.setattr(transformers, "SpeechModel", placeholder, raising=False)
    with pytest.raises(UsageError, match=r"SpeechModel cannot be used here: .* requires the package no_such_package"):
        hub_model("transformers:SpeechModel", {})


FOLDERS = {
    "no JSON": ("{", "is no JSON"),
    "a list": ("[1]", "holds list"),
    "an unknown type": ('{"model_type": "bertt"}', "no configuration that transformers knows"),
    "a value of another kind": ('{"model_type": "bert", "hidden_size": "big"}', "expected int, got str .value: 'big'"),
    "values that do not fit together": (
        '{"model_type": "llama", "hidden_size": 32, "num_attention_heads": 5}',
        "is not a multiple of the number of attention heads",
    ),
    "code of its own": ('{"model_type": "x", "auto_map": {"AutoModel": "code.Net"}}', "code.py.*trust-remote-code"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_wrong(name: str, tmp_path: Path) -> None:
    text, said = FOLDERS[name]
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        hub_model(f"transformers:{tmp_path}", {})


CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel

class Small(PretrainedConfig):
    model_type = "small"
    def __init__(self, hidden_size=6, vocab_size=9, **more):
        super().__init__(**more)
        self.hidden_size, self.vocab_size = hidden_size, vocab_size

class Net(PreTrainedModel):
    config_class = Small
    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()
    def forward(self, input_ids):
        return self.table(input_ids)
"""


def test_a_folders_own_code_is_run_where_the_user_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "code.py").write_text(CODE)
    said = {"model_type": "small", "hidden_size": 8, "architectures": ["Net"]}
    said["auto_map"] = {"AutoConfig": "code.Small", "AutoModel": "code.Net"}  # type: ignore[assignment]
    (folder / "config.json").write_text(json.dumps(said))
    model = hub_model(f"transformers:{folder}", {}, trust_remote_code=True)
    assert (model.name, model.config.hidden_size) == ("Net", 8)
    assert model.build().table.weight.shape == (9, 8)
