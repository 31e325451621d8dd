"""Find a model of ``transformers`` by a folder or a class's name, and build it from its configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import UnknownChoice, UsageError
from port.translation.hub.derived_fields import nested, rebuilt, with_fields
from port.translation.hub.experts import with_grouped_experts
from port.translation.hub.target import PREFIX

if TYPE_CHECKING:
    import torch

CONFIG_FILE = "config.json"
PLAIN = {"use_cache": False, "return_dict": True, "output_attentions": False, "output_hidden_states": False}
"""Fields that every model is built with: a forward pass without a cache."""
DRAWN_BY_NUMPY: Mapping[str, Any] = {"apply_spec_augment": False, "mask_time_prob": 0.0, "mask_feature_prob": 0.0}
"""Fields by which a model in training masks its inputs with random numbers of numpy, which compiled code cannot draw,
with the values that turn this off: a switch, and for configurations without a switch, how much is masked."""

LAYERS = re.compile(r"num_(hidden_|decoder_|encoder_)?layers|n_layers?|(en|de)coder_layers")
"""Fields that count a model's layers."""


@dataclass(frozen=True)
class HubModel:
    """A class of ``transformers`` and the configuration of one of its models.

    Attributes:
        model_class: a class of ``transformers``, or of the folder's own code.
        config: the model's configuration, at its real size.
        folder: the folder that it was read from; None for a class.
        remarks: what the model is built without, and why; a sentence each.
    """

    model_class: Any
    config: Any
    folder: Path | None = None
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its class."""
        return str(self.model_class.__name__)

    def build(self, config: Any = None) -> torch.nn.Module:
        """Return the module in evaluation mode, with new weights.

        Args:
            config: another configuration than the model's.
        """
        module: torch.nn.Module = self.model_class(rebuilt(self.config if config is None else config))
        return module.eval()


def hub_model(target: str, fields: Mapping[str, Any], *, trust_remote_code: bool = False) -> HubModel:
    """Find a model.

    Args:
        target: ``transformers:FOLDER``, with ``config.json`` in it; ``transformers:BertModel``, with the configuration
            that its class has by default; or ``transformers:AutoModelForCausalLM``, whose configuration says its
            ``model_type``.
        fields: fields of the configuration to set.
        trust_remote_code: whether code in the folder may be run.

    Raises:
        UsageError: ``transformers`` is not installed; there is no such folder or class; the configuration's class is
            unknown, or in the folder's own code; a field does not exist, or does not take the value.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{target} needs transformers, which is not installed here: pip install transformers"
        ) from error
    transformers.logging.set_verbosity_error()
    place = target.removeprefix(PREFIX)
    folder = Path(place)
    if folder.is_dir() or "/" in place or place.startswith("."):
        model = _of_folder(folder, fields, trust_remote_code)
    else:
        model = _of_class(place, fields)
    for name, value in PLAIN.items():
        _set_everywhere(model.config, name, value)
    _check_config(model, target)
    with_grouped_experts(model.model_class, [model.config, *nested(model.config)])
    return _without_augmentation(_said_without_layers(model), fields)


def _said_without_layers(model: HubModel) -> HubModel:
    """Return the model, with a remark for each kind of layer that it has none of."""
    remarks = [
        f"built with {name} = 0 of {where}: {model.name} has no such layers, and is compared without them"
        for where, name, number in _numbers_of_layers(model.config)
        if number == 0
    ]
    return replace(model, remarks=(*model.remarks, *remarks))


def _check_config(model: HubModel, target: str) -> None:
    """Check a configuration with all its fields.

    Raises:
        UsageError: its class refuses the combination, or a number of layers is negative, for which transformers would
            make a model without layers.
    """
    for where, name, number in _numbers_of_layers(model.config):
        if number < 0:
            raise UsageError(f"{target}: {where} has {name} = {number}; a number of layers is at least 0")
    try:
        rebuilt(model.config)
    except Exception as error:
        where = type(model.config).__name__
        raise UsageError(f"{target}: {where} does not take its fields: {reason(error)}") from error


def _numbers_of_layers(config: Any) -> Iterator[tuple[str, str, int]]:
    """Yield the class of each configuration, nested ones included, with a field that counts layers and its value."""
    for one in (config, *nested(config)):
        for name, value in vars(one).items():
            if LAYERS.fullmatch(name) and isinstance(value, int):
                yield type(one).__name__, name, value


def _without_augmentation(model: HubModel, fields: Mapping[str, Any]) -> HubModel:
    """Return the model without random masks of its inputs in training, unless ``fields`` ask for them."""
    remarks = []
    everywhere = (model.config, *nested(model.config))
    for name, value in DRAWN_BY_NUMPY.items():
        masking = [one for one in everywhere if getattr(one, name, value) != value and name == _masked_by(one, name)]
        if name not in fields and masking:
            for one in masking:
                setattr(one, name, value)
            remarks.append(
                f"built with {name} = {value}: in training {model.name} masks its own inputs, by numbers that numpy "
                "draws; mask what you train on before it goes in"
            )
    return replace(model, remarks=(*model.remarks, *remarks))


def _masked_by(config: Any, name: str) -> str:
    """Return the field that turns off what another one sets: the switch, if there is one."""
    switch = next(iter(DRAWN_BY_NUMPY))
    return switch if hasattr(config, switch) else name


def _of_folder(folder: Path, fields: Mapping[str, Any], trust_remote_code: bool) -> HubModel:
    from transformers import AutoConfig

    file = folder / CONFIG_FILE
    if not file.is_file():
        raise UsageError(f"{folder} has no {CONFIG_FILE}: a folder of the hub's has one")
    try:
        said = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise UsageError(f"{file} holds {type(said).__name__}, and no object")
    if said.get("auto_map") and not trust_remote_code:
        code = ", ".join(sorted({str(value).partition(".")[0] + ".py" for value in said["auto_map"].values()}))
        raise UsageError(
            f"{file} requires code from the folder ({code}), which is not run unless you allow it: read it, and "
            "pass --trust-remote-code"
        )
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise UsageError(f"{file} is no configuration that transformers knows: {reason(error)}") from error
    config = _with(config, fields, str(file))
    return HubModel(_class_of(config, said, folder, trust_remote_code), config, folder)


def _class_of(config: Any, said: Mapping[str, Any], folder: Path, trust_remote_code: bool) -> Any:
    """Return the class that the configuration names; otherwise the model without a head."""
    import transformers

    names = said.get("architectures") or []
    found = _named(names[0]) if names else None
    if found is not None:
        return found
    if trust_remote_code and names and (auto := _auto_of(said, names[0])) is not None:
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        return get_class_from_dynamic_module(auto, str(folder), local_files_only=True)
    return _mapped(transformers.AutoModel, config, str(folder / CONFIG_FILE))


def _auto_of(said: Mapping[str, Any], name: str) -> str | None:
    return next((str(one) for one in said.get("auto_map", {}).values() if str(one).endswith(f".{name}")), None)


def _of_class(name: str, fields: Mapping[str, Any]) -> HubModel:
    import transformers

    found = _named(name)
    if found is None:
        raise UnknownChoice("class in transformers", name, [one for one in dir(transformers) if one[:1].isupper()])
    if hasattr(found, "_model_mapping"):
        if "model_type" not in fields:
            raise UsageError(f'{name} takes a configuration: say which, as in --kwargs \'{{"model_type": "llama"}}\'')
        rest = {key: value for key, value in fields.items() if key != "model_type"}
        try:
            config = transformers.AutoConfig.for_model(fields["model_type"])
        except Exception as error:
            raise UsageError(f"model_type {fields['model_type']!r} is none that transformers knows") from error
        config = _with(config, rest, f"the configuration of {fields['model_type']}")
        return HubModel(_mapped(found, config, name), config)
    config_class = getattr(found, "config_class", None)
    if not isinstance(found, type) or not isinstance(config_class, type):
        raise UsageError(
            f"transformers.{name} is no class of a model; name one, as BertModel or AutoModelForCausalLM, or a folder"
        )
    return HubModel(found, _with(config_class(), fields, config_class.__name__))


def _named(name: str) -> Any:
    """Return an attribute of transformers; None if there is none of this name.

    Raises:
        UsageError: it needs a package that is not installed; transformers then has a placeholder, which raises
            `ImportError` when it is used.
    """
    import transformers

    try:
        found = getattr(transformers, name, None)
        getattr(found, "config_class", None)
    except ImportError as error:
        raise UsageError(f"transformers.{name} cannot be used here: {' '.join(str(error).split())}") from error
    return found


def _mapped(auto: Any, config: Any, where: str) -> Any:
    """Return the class that an ``Auto`` class maps a configuration to."""
    mapping = auto._model_mapping
    if type(config) not in mapping:
        raise UsageError(f"{where}: {auto.__name__} has no class for {type(config).__name__}")
    found = mapping[type(config)]
    return found[0] if isinstance(found, tuple) else found


def _with(config: Any, fields: Mapping[str, Any], where: str) -> Any:
    """Return a configuration with other fields; ``text_config.hidden_size`` is one of a nested configuration."""
    known = config.to_dict()
    own: dict[str, Any] = {}
    for name, value in fields.items():
        head, _, rest = name.partition(".")
        if head not in known and head not in getattr(config, "attribute_map", {}) and not hasattr(config, head):
            raise UnknownChoice(f"field of {where}", name, sorted(known))
        if rest:
            setattr(config, head, _with(getattr(config, head), {rest: value}, f"{where}'s {head}"))
        else:
            own[name] = value
    try:
        return with_fields(config, own)
    except Exception as error:
        said = ", ".join(f"{name} = {value!r}" for name, value in own.items())
        raise UsageError(f"{where} does not take {said}: {reason(error)}") from error


def _set_everywhere(config: Any, name: str, value: Any) -> None:
    for one in (config, *nested(config)):
        if hasattr(one, name):
            setattr(one, name, value)


def reason(error: BaseException) -> str:
    """Return the first line of an error of transformers, and the line after it if it ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    end = next((number for number, line in enumerate(lines, start=1) if not line.endswith(":")), len(lines))
    return " ".join(lines[:end]) or type(error).__name__
