"""A model of ``transformers``: found by a folder with ``config.json`` or a class's name, built from its config."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import UnknownChoice, UsageError
from port.translation.hub.experts import with_grouped_experts
from port.translation.hub.target import PREFIX

if TYPE_CHECKING:
    import torch

CONFIG_FILE = "config.json"
PLAIN = {"use_cache": False, "return_dict": True, "output_attentions": False, "output_hidden_states": False}
"""Fields that every model is built with: one pass forward, without a cache."""


@dataclass(frozen=True)
class HubModel:
    """A class of ``transformers`` and the configuration of one of its models.

    Attributes:
        model_class: of ``transformers``, or of the folder's own code.
        config: of the model, at its real size.
        folder: it was read from; None of a class.
    """

    model_class: Any
    config: Any
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Of its class."""
        return str(self.model_class.__name__)

    def build(self, config: Any = None) -> torch.nn.Module:
        """The module in evaluation, with new weights.

        Args:
            config: another one than the model's.
        """
        module: torch.nn.Module = self.model_class(_anew(self.config if config is None else config))
        return module.eval()


def hub_model(target: str, fields: Mapping[str, Any], *, trust_remote_code: bool = False) -> HubModel:
    """Find a model.

    Args:
        target: ``transformers:FOLDER``, with ``config.json`` in it; ``transformers:BertModel``, with the configuration
            that its class has by default; or ``transformers:AutoModelForCausalLM``, whose configuration says its
            ``model_type``.
        fields: of the configuration, which are set.
        trust_remote_code: whether code that lies in the folder may be run.

    Raises:
        UsageError: ``transformers`` is not installed; there is no such folder or class; the configuration is of no
            known class, or wants code of the folder's own; a field that it has not.
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
    with_grouped_experts(model.model_class, [model.config, *_nested(model.config)])
    return model


def _anew(config: Any) -> Any:
    """A configuration made once more from its fields: so a translation sees which number comes from which of them."""
    made = type(config).from_dict(config.to_dict())
    for one, its in zip((made, *_nested(made)), (config, *_nested(config)), strict=True):
        one._experts_implementation = its._experts_implementation
    return made


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
            f"{file} wants code that lies in the folder ({code}), which is not run unless you say so: read it, and "
            "give --trust-remote-code"
        )
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise UsageError(f"{file} is no configuration that transformers knows: {_first_line(error)}") from error
    kind = type(config)
    config = _with_fields(lambda more: kind.from_dict({**said, **more}) if more else config, fields, str(file))
    return HubModel(_class_of(config, said, folder, trust_remote_code), config, folder)


def _class_of(config: Any, said: Mapping[str, Any], folder: Path, trust_remote_code: bool) -> Any:
    """The class that a configuration says its weights are of; otherwise the model without a head."""
    import transformers

    names = said.get("architectures") or []
    found = getattr(transformers, names[0], None) if names else None
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

    found = getattr(transformers, name, None)
    if found is None:
        raise UnknownChoice("class in transformers", name, [one for one in dir(transformers) if one[:1].isupper()])
    if hasattr(found, "_model_mapping"):
        if "model_type" not in fields:
            raise UsageError(f'{name} takes a configuration: say which, as in --kwargs \'{{"model_type": "llama"}}\'')
        rest = {key: value for key, value in fields.items() if key != "model_type"}
        kind = fields["model_type"]
        try:
            transformers.AutoConfig.for_model(kind)
        except Exception as error:
            raise UsageError(f"model_type {kind!r} is none that transformers knows") from error
        made = partial(transformers.AutoConfig.for_model, kind)
        config = _with_fields(lambda more: made(**more), rest, f"the configuration of {kind}")
        return HubModel(_mapped(found, config, name), config)
    config_class = getattr(found, "config_class", None)
    if not isinstance(found, type) or not isinstance(config_class, type):
        raise UsageError(
            f"transformers.{name} is no class of a model; name one, as BertModel or AutoModelForCausalLM, or a folder"
        )
    return HubModel(found, _with_fields(lambda more: config_class(**more), fields, config_class.__name__))


def _mapped(auto: Any, config: Any, where: str) -> Any:
    """The class that an ``Auto`` class has for a configuration."""
    mapping = auto._model_mapping
    if type(config) not in mapping:
        raise UsageError(f"{where}: {auto.__name__} has no class for {type(config).__name__}")
    found = mapping[type(config)]
    return found[0] if isinstance(found, tuple) else found


def _with_fields(made: Callable[[dict[str, Any]], Any], fields: Mapping[str, Any], where: str) -> Any:
    """A configuration with fields that a person gives, constructed with them: others follow from these, as the number
    of keys' heads does from that of the queries'.

    Raises:
        UnknownChoice: a field that it has not.
        UsageError: it does not take such a value; gives its own words.
    """
    _set(made({}), fields, where)
    own = {name: value for name, value in fields.items() if "." not in name}
    try:
        config = made(own)
    except Exception as error:
        raise UsageError(f"{where} does not take {json.dumps(own, default=repr)}: {_first_line(error)}") from error
    _set(config, fields, where)
    return config


def _set(config: Any, fields: Mapping[str, Any], where: str) -> None:
    known = config.to_dict()
    for name, value in fields.items():
        head, _, rest = name.partition(".")
        if head not in known and head not in getattr(config, "attribute_map", {}) and not hasattr(config, head):
            raise UnknownChoice(f"field of {where}", name, sorted(known))
        if rest:
            _set(getattr(config, head), {rest: value}, f"{where}'s {head}")
        else:
            setattr(config, name, value)


def _set_everywhere(config: Any, name: str, value: Any) -> None:
    for one in (config, *_nested(config)):
        if hasattr(one, name):
            setattr(one, name, value)


def _nested(config: Any) -> list[Any]:
    """The configurations within one: of its text, its images."""
    from transformers import PretrainedConfig

    inner = [value for value in vars(config).values() if isinstance(value, PretrainedConfig)]
    return [each for one in inner for each in (one, *_nested(one))]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
